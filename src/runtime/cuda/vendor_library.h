// A library of the GPU's vendor, loaded when it is first needed and never unloaded: a program starts without it, and
// runs on machines that have none. Safe from several threads once it is made.
#pragma once

#include <string>

namespace lockstep::gpu {

class VendorLibrary {
 public:
  struct Description {
    std::string product;  ///< What to install, in the words of an error: "a recent NCCL 2".
    std::string file;     ///< With the version of its interface: "libnccl.so.2".
    std::string folder;   ///< Looked into when the system's loader finds none; may be empty.
  };

  /// Takes the copy that this process has loaded already, from wherever that was; else the one that the system's loader
  /// finds (the program's run path, LD_LIBRARY_PATH, what ldconfig knows); else the one in the folder. Throws
  /// BackendError of "dlopen" with the file, the loader's words and what to do.
  explicit VendorLibrary(Description description);

  /// Points `function` at what the library calls `name`. Throws BackendError of "dlsym" if there is no such thing.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  const Description description_;
  void* handle_;  // never closed: what was found must stay valid until the process has ended
};

}  // namespace lockstep::gpu
