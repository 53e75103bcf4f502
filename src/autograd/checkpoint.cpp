#include <lockstep/autograd/checkpoint.h>

#include <string>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>

#include "autograd/record.h"
#include "autograd/tape.h"
#include "core/text.h"
#include "runtime/device_thread.h"

namespace lockstep {
namespace autograd {
namespace {

template <class T>
std::optional<T> value_of(const T* pointer) {
  return pointer ? std::optional<T>(*pointer) : std::nullopt;
}
template <class T>
T* address_of(std::optional<T>& value) {
  return value ? &*value : nullptr;
}

// Where a graph ends that nobody goes through.
class EndNode final : public Node {
 public:
  explicit EndNode(const Tensor& tensor) : Node("Checkpoint", tensor.device()) {}
  Gradients backward(const Gradients&) override { return {}; }
};

// Operations on it are recorded as in the first run, also where an outer checkpoint made it again without its graph.
Tensor recorded_as_before(const Tensor& input, bool needed_grad) {
  if (!needed_grad || needs_grad(input)) return input;
  Tensor end = input.detach();
  attach(std::make_shared<EndNode>(end), std::span(&end, 1));
  return end;
}

}  // namespace

class Tape::Refill final : public SaveListener {
 public:
  Refill(const Tape& tape, bool connected) : tape_(tape), connected_(connected) {}

  std::shared_ptr<Dropped> saves(const Tensor& tensor) override {
    const std::size_t at = next_++;
    if (at >= tape_.entries_.size()) return nullptr;
    const std::shared_ptr<Entry> entry = tape_.entries_[at].lock();
    if (!entry) return nullptr;
    if (entry->sizes != tensor.sizes() || entry->dtype != tensor.dtype())
      throw AutogradError(text("[checkpoint] expected the function to do the same again, got a saved tensor ", at,
                               " of ", tensor.sizes(), ' ', tensor.dtype(), " where it saved ", entry->sizes, ' ',
                               entry->dtype, " before"));
    entry->tensor = connected_ ? tensor : tensor.detach();
    entry->connected = connected_;
    return nullptr;
  }

  void finish() const {
    if (next_ != tape_.entries_.size())
      throw AutogradError(text("[checkpoint] expected the function to do the same again, got ", next_,
                               " saved tensors where it saved ", tape_.entries_.size(), " before"));
  }

 private:
  const Tape& tape_;
  const bool connected_;
  std::size_t next_ = 0;
};

Tape::Tape(std::span<const Tensor> inputs, Again again)
    : again_(std::move(again)),
      streams_(context().streams),
      random_(current_generator()),
      batch_random_(value_of(context().batch_generator)),
      shard_(value_of(context().shard)),
      replica_(context().replica),
      autocast_(autocast_dtype()) {
  for (const Tensor& input : inputs)
    inputs_.push_back(input.defined() ? Input{Saved(input), autograd::needs_grad(input)} : Input{});
}

std::shared_ptr<Dropped> Tape::saves(const Tensor& tensor) {
  auto entry = std::make_shared<Entry>();
  entry->tape = shared_from_this();
  entry->sizes = tensor.sizes();
  entry->dtype = tensor.dtype();
  entries_.push_back(entry);
  return entry;
}

Tensor Tape::tensor_of(Entry& entry) {
  DeviceThread::wait_until([this] { return !busy_.exchange(true); });
  struct Free {
    Tape& tape;
    ~Free() {
      tape.busy_ = false;
      DeviceThread::notify();
    }
  } const free{*this};
  if (!entry.tensor.defined() || (grad_enabled() && !entry.connected)) run_again(grad_enabled());
  return entry.tensor;
}

void Tape::run_again(bool connected) {
  std::vector<Tensor> inputs;
  for (const Input& input : inputs_) {
    const Tensor tensor = input.saved.get();
    inputs.push_back(tensor.defined() ? recorded_as_before(tensor, input.needs_grad) : tensor);
  }
  GeneratorState random = random_;
  std::optional<GeneratorState> batch_random = batch_random_;
  std::string printed;
  Refill refill(*this, connected);
  Context same = {.streams = streams_,
                  .in_pass = context().in_pass,
                  .generator = &random,
                  .shard = shard_ ? &*shard_ : nullptr,
                  .batch_generator = address_of(batch_random),
                  .replica = replica_,
                  .step_values = context().step_values,
                  .checkpointed = CheckpointedRun::again,
                  .save_listener = &refill,
                  .printed = &printed};
  const ContextScope scope(same);
  std::optional<Autocast> region;
  if (autocast_) region.emplace(*autocast_);
  again_(inputs);
  refill.finish();
}

}  // namespace autograd

namespace detail {

CheckpointedScope::CheckpointedScope(std::vector<Tensor> inputs, std::function<void(std::span<const Tensor>)> again) {
  Context& here = context();
  if (!here.recording) return;
  tape_ = std::make_shared<autograd::Tape>(inputs, std::move(again));
  outer_ = std::exchange(here.save_listener, tape_.get());
  if (here.checkpointed == CheckpointedRun::none) here.checkpointed = CheckpointedRun::first;
}

CheckpointedScope::~CheckpointedScope() {
  if (!tape_) return;
  context().save_listener = outer_;
  if (!outer_) context().checkpointed = CheckpointedRun::none;
}

}  // namespace detail
}  // namespace lockstep
