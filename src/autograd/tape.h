// What a checkpointed function saved, in order, without the tensors; and how to make them again. The second run begins
// with the tensors that the function changes in place (buffers) as the first run found them, and ends with those that
// it found itself. Used by one thread at a time; backwards on several devices take turns.
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

class Tape final : public SaveListener, public std::enable_shared_from_this<Tape> {
 public:
  using Again = std::function<void(std::span<const Tensor>)>;

  /// Remembers what the thread works under now.
  Tape(std::span<const Tensor> inputs, Again again);

  std::shared_ptr<Dropped> saves(const Tensor& tensor) override;
  void changes(const Tensor& target) override;

  /// Makes the present context that of the first run, for as long as the function runs.
  void begin();
  void end();

 private:
  struct Entry final : Dropped {
    Tensor get() override { return tape->tensor_of(*this); }

    std::shared_ptr<Tape> tape;
    Shape sizes;
    DType dtype;
    Tensor tensor;           // undefined while it is dropped
    bool connected = false;  // to the graph of the second run
  };
  struct Values {  // of a tensor that changes in place
    Tensor target, copy;
    std::uint64_t version;
  };
  // The second run: gives each entry that is still wanted its tensor.
  class Refill;

  Tensor tensor_of(Entry& entry);
  void run_again(bool connected);
  bool has_changed(const Tensor& tensor) const;
  static Values values_of(const Tensor& target);
  static void restore(const std::vector<Values>& all);

  const Again again_;
  struct Input {
    Saved saved;  // by an outer checkpoint, if there is one: then it is dropped too
    bool needs_grad = false;
  };
  std::vector<Input> inputs_;
  std::vector<std::weak_ptr<Entry>> entries_;
  std::vector<Values> before_;  // each change of what was there before the function ran, in order
  std::atomic<bool> busy_ = false;

  const std::uint64_t number_;
  SaveListener* const outer_;  // of the first run
  const std::uint64_t outer_number_;
  const decltype(Context::streams) streams_;
  const GeneratorState random_;
  const std::optional<GeneratorState> batch_random_;
  const std::optional<BatchShard> shard_;
  const std::size_t replica_;
  const std::optional<DType> autocast_;
};

}  // namespace lockstep::autograd
