// Delays the end of the process until calls of oneDNN and oneTBB have returned. exit() destroys these libraries on one
// thread while other threads may still run. So exit() first waits until the running calls of the other threads have
// returned; new calls of these threads block.
#pragma once

namespace lockstep::host {

/// In its scope, this thread may call oneDNN or oneTBB. The thread that starts an operation creates it; the tasks that
/// the operation is divided into do not. After exit() has begun, the constructor blocks forever, except on the exiting
/// thread.
class LibraryUse {
 public:
  LibraryUse() noexcept;
  ~LibraryUse();
  LibraryUse(const LibraryUse&) = delete;
  LibraryUse& operator=(const LibraryUse&) = delete;
};

}  // namespace lockstep::host
