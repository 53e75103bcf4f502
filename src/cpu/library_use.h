// Orders the end of the process after calls of oneDNN and oneTBB. exit() destroys these libraries on one thread while
// other threads may still run. Before that, it waits for running calls of the other threads; new calls block.
#pragma once

namespace lockstep::host {

/// In its scope, this thread may be inside another library. The thread that calls the library creates it, not the
/// pieces that the work is divided into. After exit() has begun, the constructor blocks forever, except on the exiting
/// thread.
class LibraryUse {
 public:
  LibraryUse() noexcept;
  ~LibraryUse();
  LibraryUse(const LibraryUse&) = delete;
  LibraryUse& operator=(const LibraryUse&) = delete;
};

}  // namespace lockstep::host
