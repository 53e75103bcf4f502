// What a checkpointed function saved, in order, without the tensors; and how to make them again. Used by one thread at
// a time; backwards on several devices take turns.
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

 private:
  struct Entry final : Dropped {
    Tensor get() override { return tape->tensor_of(*this); }

    std::shared_ptr<Tape> tape;
    Shape sizes;
    DType dtype;
    Tensor tensor;           // undefined while it is dropped
    bool connected = false;  // to the graph of the second run
  };
  // The second run: gives each entry that is still wanted its tensor.
  class Refill;

  Tensor tensor_of(Entry& entry);
  void run_again(bool connected);

  const Again again_;
  struct Input {
    Saved saved;  // by an outer checkpoint, if there is one: then it is dropped too
    bool needs_grad = false;
  };
  std::vector<Input> inputs_;
  std::vector<std::weak_ptr<Entry>> entries_;
  std::atomic<bool> busy_ = false;

  const decltype(Context::streams) streams_;
  const GeneratorState random_;
  const std::optional<GeneratorState> batch_random_;
  const std::optional<BatchShard> shard_;
  const std::size_t replica_;
  const std::optional<DType> autocast_;
};

}  // namespace lockstep::autograd
