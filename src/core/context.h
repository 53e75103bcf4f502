// The thread-local Context: streams, gradient mode, random numbers, replica. Guards of the upper layers change it for a
// scope. Every thread begins with a context of its own, in which nothing is set. A job runs in a context that its
// submitter passes: a fresh one, or one that copies named fields of the submitter's. Reading is inline and takes no
// lock, since small operations read it several times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace lockstep {

class ReplicaBarrier;
struct BatchShard;
struct GeneratorState;
class HostState;
class ReplayValues;
namespace autograd {
class RunningNode;
class AutocastRegion;
class SaveListener;
}  // namespace autograd
namespace nn {
class ForwardObserver;
struct CopyTarget;
}  // namespace nn

/// A plain value that owns nothing. Upper layers own the objects that it points to.
struct Context {
  static constexpr std::size_t kMaxDevices = 64;

  std::array<std::int8_t, kMaxDevices> streams = {};    ///< Id of the current stream of each cuda:i.
  bool recording = true;                                ///< Operations are recorded for backward.
  bool detects_anomaly = false;                         ///< A backward that begins here stops at the first NaN.
  bool in_pass = false;                                 ///< The thread runs a forward pass of several replicas.
  GeneratorState* generator = nullptr;                  ///< Random numbers; null: the process's sequence.
  GeneratorState* process_sequence = nullptr;           ///< Stands in for the process's sequence; null: none does.
  bool defers_init = false;                             ///< New tensors on the CPU get memory at their first use.
  const BatchShard* shard = nullptr;                    ///< The thread's rows of the batch; null: all rows.
  GeneratorState* batch_generator = nullptr;            ///< A sequence that all replicas share; null: `generator`.
  const autograd::RunningNode* running_node = nullptr;  ///< The node whose backward runs.
  const nn::CopyTarget* copy_target = nullptr;          ///< Where parameters are copied to; null: same device.
  ReplicaBarrier* barrier = nullptr;                    ///< The barrier of the pass's replicas, if there are several.
  std::size_t replica = 0;                              ///< This replica's number in the pass.
  autograd::AutocastRegion* autocast = nullptr;         ///< Products are computed in a 16-bit dtype; null: no autocast.
  ReplayValues* replay_values = nullptr;                ///< Values of the step that is being captured; null: none.
  HostState* host_state = nullptr;                      ///< State of the step that is or will be captured; null: none.
  std::uint64_t checkpoint = 0;  ///< Number of the innermost checkpoint() whose function runs; 0: none.
  autograd::SaveListener* save_listener = nullptr;  ///< Told of each tensor that is saved for backward.
  nn::ForwardObserver* forward_observer = nullptr;  ///< Told of each module's call.
  std::string* printed = nullptr;                   ///< Buffer for printed text; null: standard output.
};

namespace detail {
extern thread_local constinit Context own_context;
extern thread_local constinit Context* present_context;  // null: the thread's own
}  // namespace detail

/// The present context of this thread.
inline Context& context() noexcept {
  Context* const present = detail::present_context;
  return present ? *present : detail::own_context;
}

/// Makes a context the present one of this thread, for a scope. Allocates nothing: a job must be able to begin when
/// memory is exhausted.
class ContextScope {
 public:
  explicit ContextScope(Context& context) noexcept : outer_(std::exchange(detail::present_context, &context)) {}
  ~ContextScope() { detail::present_context = outer_; }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  Context* const outer_;
};

}  // namespace lockstep
