// What a thread works under: the present Context, which guards of the upper layers change for a scope. Every thread
// begins with one of its own, in which nothing is set. A job runs in a context that is handed to it: a fresh one, or
// one made of its submitter's by naming what it takes over. Reading is inline and takes no lock: small operations do it
// several times.
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
class StepParts;
class StepValues;
namespace autograd {
class RunningNode;
class AutocastRegion;
class SaveListener;
}  // namespace autograd
namespace nn {
class ForwardObserver;
struct CopyTarget;
}  // namespace nn

/// A plain value that owns nothing. Upper layers own what it points to.
struct Context {
  static constexpr std::size_t kMostDevices = 64;

  std::array<std::int8_t, kMostDevices> streams = {};   ///< Id of the current stream of each cuda:i.
  bool recording = true;                                ///< Operations are recorded for backward.
  bool detects_anomaly = false;                         ///< A backward that begins here stops at the first NaN.
  bool in_pass = false;                                 ///< Of a forward pass of several replicas.
  GeneratorState* generator = nullptr;                  ///< Random numbers; null: the process's sequence.
  const BatchShard* shard = nullptr;                    ///< Of the batch; null: all of it.
  GeneratorState* batch_generator = nullptr;            ///< That all replicas share; null: as `generator`.
  const autograd::RunningNode* running_node = nullptr;  ///< Whose backward runs.
  const nn::CopyTarget* copy_target = nullptr;          ///< Where copies of parameters land; null: beside the original.
  ReplicaBarrier* barrier = nullptr;                    ///< Where replicas of the pass wait for each other, if several.
  std::size_t replica = 0;                              ///< Which of them this is.
  autograd::AutocastRegion* autocast = nullptr;         ///< Products are computed in 16 bits; null: they are not.
  StepValues* step_values = nullptr;                    ///< Of the step that is being captured; null: none is.
  StepParts* step_parts = nullptr;                      ///< Of a step that is or will be captured; null: of none.
  std::uint64_t checkpoint = 0;  ///< Number of the innermost checkpoint() whose function runs; 0: none.
  autograd::SaveListener* save_listener = nullptr;  ///< Hears of what is saved for backward.
  nn::ForwardObserver* forward_observer = nullptr;  ///< Hears of each module's call.
  std::string* printed = nullptr;                   ///< Keeps what is printed; null: standard output.
};

namespace detail {
extern thread_local constinit Context own_context;
extern thread_local constinit Context* present_context;  // null: the thread's own
}  // namespace detail

/// The present one of this thread.
inline Context& context() noexcept {
  Context* const present = detail::present_context;
  return present ? *present : detail::own_context;
}

/// Makes a context the present one of this thread, for a scope. Needs no memory: a job may begin where there is none.
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
