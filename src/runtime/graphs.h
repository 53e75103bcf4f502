// What a backend that can keep work, and do it again, has beside a Backend: graphs, as CUDA calls them. A graph is the
// work of one training step on all devices; launching it costs the host one call.
//
// One capture at a time. Its work is what is enqueued on the stream that it begins with, and on streams that wait for
// an event of a stream whose work is kept. Such streams and events cannot be asked or waited for on the host, and a
// copy from or to the host cannot be kept: both throw InvalidArgument, as does waiting there for an event of other
// work.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ranked_mutex.h"
#include "runtime/backend.h"

namespace lockstep {

using GraphHandle = void*;

/// What captured work uses and cannot do without: a communicator.
class CapturedUse {
 public:
  virtual ~CapturedUse() = default;
  virtual std::uint64_t failures() const noexcept = 0;  ///< So far; each ends the captured work's use of it.
};

class Graphs {
 public:
  /// Of the present capture: `used` lives as long as its work.
  void use(std::shared_ptr<const CapturedUse> used) {
    const std::scoped_lock lock(used_mutex_);
    used_.push_back(std::move(used));
  }
  /// All that the capture used so far.
  std::vector<std::shared_ptr<const CapturedUse>> take_used() {
    const std::scoped_lock lock(used_mutex_);
    return std::exchange(used_, {});
  }

  /// Throws InvalidArgument where a capture is on its way.
  virtual void begin_capture(StreamHandle origin) = 0;
  /// Whether the stream's work is kept.
  virtual bool is_capturing(StreamHandle stream) = 0;
  /// `origin` has waited for all other streams whose work is kept.
  virtual GraphHandle end_capture(StreamHandle origin) = 0;
  virtual void abandon_capture(StreamHandle origin) noexcept = 0;  ///< What was kept is dropped.
  /// Enqueues on `origin` what was kept: it starts after all that is there, whichever streams it was kept on.
  virtual void launch(StreamHandle origin, GraphHandle graph) = 0;
  virtual void destroy(GraphHandle graph) noexcept = 0;  ///< All of its work has ended.

 protected:
  ~Graphs() = default;

 private:
  RankedMutex<LockRank::graphs> used_mutex_;
  std::vector<std::shared_ptr<const CapturedUse>> used_;
};

/// What a capture cannot keep. Throws InvalidArgument that says so, and what to do.
[[noreturn]] void refuse_in_capture(std::string_view what, std::string_view where);

}  // namespace lockstep
