// The end of the process and the libraries that loops and products use. exit() destroys oneDNN and oneTBB on one
// thread while others may go on: what uses them is over by then, and nothing begins.
#pragma once

namespace lockstep::host {

/// While one lives, this thread may be inside another library: to be made by whoever is about to call it, not by the
/// pieces of work that it is divided into. Once the process ends, the constructor blocks for ever, but on the thread
/// that ends it.
class LibraryUse {
 public:
  LibraryUse() noexcept;
  ~LibraryUse();
  LibraryUse(const LibraryUse&) = delete;
  LibraryUse& operator=(const LibraryUse&) = delete;
};

}  // namespace lockstep::host
