// A library of the GPU's vendor, loaded at its first use and never unloaded: programs start without it, and run on
// machines that lack it. Thread-safe after construction.
#pragma once

#include <string>

namespace lockstep::gpu {

class VendorLibrary {
 public:
  struct Description {
    std::string product;  ///< The product to install, for error messages: "a recent NCCL 2".
    std::string file;     ///< The file name with its version: "libnccl.so.2".
    std::string folder;   ///< Searched if the system's loader finds no library; may be empty.
  };

  /// Uses, in this order: a copy that this process has already loaded from any place; the copy that the system's loader
  /// finds (the program's run path, LD_LIBRARY_PATH, ldconfig's cache); the copy in the folder. Throws BackendError of
  /// "dlopen" with the file, the loader's error and the remedy.
  explicit VendorLibrary(Description description);

  /// Points `function` at the library's symbol `name`. Throws BackendError of "dlsym" if there is none.
  template <class Function>
  void load_symbol(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  const Description description_;
  void* handle_;  // never closed: its functions must stay valid until the process ends
};

}  // namespace lockstep::gpu
