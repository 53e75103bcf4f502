// The record of a checkpointed function: the saved tensors in order, without their memory, and the means to recompute
// them. During the second run, tensors that the function changes in place (buffers) have other memory, with the values
// from before the first run; their own memory stays as it is. Each backward recomputes, because tensors that an earlier
// one recomputed are wrong if that one failed. Only one thread at a time uses a frame; backwards on several devices
// take turns.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/tensor/batch_shard.h>
#include <lockstep/tensor/random.h>

#include "autograd/saved.h"
#include "core/context.h"

namespace lockstep::autograd {

class CheckpointFrame final : public SaveListener, public std::enable_shared_from_this<CheckpointFrame> {
 public:
  using RecomputeFn = std::function<void(std::span<const Tensor>)>;

  /// Saves the thread's present Context for the second run.
  CheckpointFrame(std::span<const Tensor> inputs, RecomputeFn recompute);

  std::shared_ptr<SavedPlaceholder> on_save(const Tensor& tensor) override;
  void on_in_place(const Tensor& target) override;

  /// Registers the frame in the present Context during the first run, from begin() to end().
  void begin();
  void end();

 private:
  struct Entry final : SavedPlaceholder {
    Tensor get() override { return frame->tensor_of(*this); }

    std::shared_ptr<CheckpointFrame> frame;
    Shape sizes;
    DType dtype;
    std::uint64_t version;         // of the saved tensor in the first run
    Tensor tensor;                 // undefined while it is dropped
    bool connected = false;        // `tensor` is part of the second run's graph
    std::uint64_t backward = 0;    // the RunningBackward that recomputed it
    std::optional<Stream> stream;  // on which the second run computed it
  };
  struct Values {  // a copy of a tensor that changes in place
    Tensor target, copy;
    std::uint64_t version;
  };
  // The SaveListener of the second run: when the function saves a tensor again, puts it into the entry that the first
  // run made for it, if that entry is still used.
  class Recompute;
  class OtherMemory;

  Tensor tensor_of(Entry& entry);
  void run_again(bool connected, std::uint64_t backward);
  bool is_older(const Tensor& tensor) const;
  bool has_changed(const Tensor& tensor) const;
  static Values values_of(const Tensor& target);
  static void restore(const std::vector<Values>& all);

  const RecomputeFn recompute_fn_;
  struct Input {
    Saved saved;  // an enclosing checkpoint, if there is one, drops it
    bool needs_grad = false;
    Tensor changed;  // the input, if the function changes it in place: then `saved` has another version
  };
  std::vector<Input> inputs_;
  std::vector<Tensor> first_inputs_;  // during the first run
  std::vector<std::weak_ptr<Entry>> entries_;
  std::vector<Values> before_;  // values of tensors older than the first run, each before its first change
  std::atomic<bool> busy_ = false;
  bool has_run_ = false;  // the first run has ended

  const std::uint64_t number_;
  SaveListener* const outer_;  // the listener around the first run, or null
  const std::uint64_t outer_number_;
  const decltype(Context::streams) streams_;
  const GeneratorState random_;
  const bool has_own_random_;  // else random_ is of the process's sequence
  const std::optional<GeneratorState> batch_random_;
  const std::optional<BatchShard> shard_;
  const std::size_t replica_;
  const std::optional<DType> autocast_;
};

}  // namespace lockstep::autograd
