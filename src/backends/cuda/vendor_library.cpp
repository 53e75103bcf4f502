#include "backends/cuda/vendor_library.h"

#include <dlfcn.h>

#include <string_view>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::gpu {
namespace {

// Returns this thread's last error of dlopen or dlsym, and clears it.
std::string words_of_loader() {
  const char* const words = dlerror();
  return words ? words : "no reason given";
}

[[noreturn]] void fail(const char* api, const VendorLibrary::Description& library, std::string_view words) {
  throw BackendError(api, 0, "cuda",
                     text(words, ". What to do: install ", library.product, ", or name the folder that holds its ",
                          library.file, " in LD_LIBRARY_PATH before the program starts"));
}

void* open(const VendorLibrary::Description& library) {
  // A name without a folder, so that dlopen finds a copy that is already loaded, from any folder: it compares the name
  // with the sonames of loaded files.
  if (void* const handle = dlopen(library.file.c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
  std::string words = words_of_loader();
  if (!library.folder.empty()) {
    if (void* const handle = dlopen(text(library.folder, '/', library.file).c_str(), RTLD_LAZY | RTLD_LOCAL))
      return handle;
    words += "; " + words_of_loader();
  }
  fail("dlopen", library, words);
}

}  // namespace

VendorLibrary::VendorLibrary(Description description)
    : description_(std::move(description)), handle_(open(description_)) {}

void* VendorLibrary::address_of(const char* name) const {
  if (void* const address = dlsym(handle_, name)) return address;
  fail("dlsym", description_, words_of_loader());
}

}  // namespace lockstep::gpu
