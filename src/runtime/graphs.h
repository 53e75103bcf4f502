// Graphs: the interface of backends that can capture and replay work, as CUDA graphs do. A graph holds the work of one
// training step on all devices; the host launches it with one call.
//
// Only one capture can be active. It captures the work that is enqueued on its origin stream, and on streams that wait
// for an event of a captured stream. During a capture these calls throw InvalidArgument: a query of a captured stream
// or event, or a wait of the host for it; a wait of a captured stream for an event of work that is not captured; and a
// copy between the host and a device on a captured stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ranked_mutex.h"
#include "runtime/backend.h"

namespace lockstep {

using GraphHandle = void*;

/// An object that captured work uses and needs for its replay: a communicator.
class CapturedUse {
 public:
  virtual ~CapturedUse() = default;
  virtual std::uint64_t failures() const noexcept = 0;  ///< How often it failed. A failure breaks earlier graphs.
  /// A graph that uses this is launched on `origin`: call once before the launch, and once after it.
  virtual void watch_launch(StreamHandle origin, bool is_enqueued) const = 0;
};

/// Objects that captured work uses, each with the number of its failures at its first use.
using CapturedUses = std::map<std::shared_ptr<const CapturedUse>, std::uint64_t>;

class Graphs {
 public:
  /// Called during a capture. Keeps `used` alive as long as the captured work.
  void use(const std::shared_ptr<const CapturedUse>& used) {
    const std::uint64_t failures = used->failures();
    const std::scoped_lock lock(used_mutex_);
    used_.emplace(used, failures);
  }
  /// Returns all objects that the capture has used so far.
  CapturedUses take_used() {
    const std::scoped_lock lock(used_mutex_);
    return std::exchange(used_, {});
  }

  /// Throws InvalidArgument if another capture is active.
  virtual void begin_capture(StreamHandle origin) = 0;
  /// Returns true if the stream is being captured.
  virtual bool is_capturing(StreamHandle stream) = 0;
  /// `origin` must have waited for all other captured streams.
  virtual GraphHandle end_capture(StreamHandle origin) = 0;
  virtual void abandon_capture(StreamHandle origin) noexcept = 0;  ///< Discards the captured work.
  /// Enqueues the whole graph on `origin`, after that stream's earlier work, even if it was captured on other streams.
  virtual void launch(StreamHandle origin, GraphHandle graph) = 0;
  virtual void destroy(GraphHandle graph) noexcept = 0;  ///< All of its work must have ended.

  /// If the stream is being captured, throws an InvalidArgument that says that `what` cannot be captured.
  void refuse(std::string_view what, StreamHandle stream);

 protected:
  ~Graphs() = default;

 private:
  RankedMutex<LockRank::graphs> used_mutex_;
  CapturedUses used_;
};

/// Throws an InvalidArgument that says that `what` cannot be captured, and what to do instead.
[[noreturn]] void refuse_in_capture(std::string_view what, std::string_view where);
[[noreturn]] void refuse_in_capture(std::string_view what, StreamHandle stream);

}  // namespace lockstep
