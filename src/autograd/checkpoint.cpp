#include <lockstep/autograd/checkpoint.h>

#include <algorithm>
#include <string>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>

#include "autograd/meta.h"
#include "autograd/record.h"
#include "autograd/tape.h"
#include "core/text.h"
#include "runtime/device_thread.h"
#include "tensor/copy.h"

namespace lockstep {
namespace autograd {
namespace {

std::atomic<std::uint64_t> numbers = 0;  // checkpoints so far

template <class T>
std::optional<T> value_of(const T* pointer) {
  return pointer ? std::optional<T>(*pointer) : std::nullopt;
}
template <class T>
T* address_of(std::optional<T>& value) {
  return value ? &*value : nullptr;
}

// The end of a graph that no backward traverses.
class EndNode final : public Node {
 public:
  explicit EndNode(const Tensor& tensor) : Node("Checkpoint", tensor.device()) {}
  Gradients backward(const Gradients&) override { return {}; }
};

// A copy of a saved tensor that the function changes in place.
class Kept final : public Dropped {
 public:
  explicit Kept(Tensor tensor) : tensor_(std::move(tensor)) {}
  Tensor get() override { return tensor_; }

 private:
  const Tensor tensor_;
};

// Returns the input so that operations on it are recorded as in the first run, even if an outer checkpoint recomputed
// it without its graph.
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
    if (!tape_.has_changed(tensor)) return refill(at, tensor), nullptr;
    const Tensor copy = tensor.clone();
    refill(at, copy);
    return std::make_shared<Kept>(copy);
  }

  void changes(const Tensor&) override {}

  void finish() const {
    if (next_ != tape_.entries_.size())
      throw AutogradError(text("[checkpoint] expected the function to do the same again, got ", next_,
                               " saved tensors where it saved ", tape_.entries_.size(), " before"));
  }

 private:
  void refill(std::size_t at, const Tensor& tensor) const {
    if (at >= tape_.entries_.size()) return;
    const std::shared_ptr<Entry> entry = tape_.entries_[at].lock();
    if (!entry) return;
    if (entry->sizes != tensor.sizes() || entry->dtype != tensor.dtype())
      throw AutogradError(text("[checkpoint] expected the function to do the same again, got a saved tensor ", at,
                               " of ", tensor.sizes(), ' ', tensor.dtype(), " where it saved ", entry->sizes, ' ',
                               entry->dtype, " before"));
    entry->tensor = connected_ ? tensor : tensor.detach();
    entry->connected = connected_;
  }

  const Tape& tape_;
  const bool connected_;
  std::size_t next_ = 0;
};

Tape::Tape(std::span<const Tensor> inputs, Again again)
    : again_(std::move(again)),
      number_(++numbers),
      outer_(context().save_listener),
      outer_number_(context().checkpoint),
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

void Tape::changes(const Tensor& target) {
  if (outer_) outer_->changes(target);
  const TensorImpl& impl = *target.impl();
  const Meta* const meta = meta_of(target);
  if (impl.storage->checkpoint >= number_ || (meta && meta->grad_fn)) return;
  const auto is_known = [&](const Values& values) {
    const TensorImpl& other = *values.target.impl();
    return other.storage == impl.storage && other.offset == impl.offset && other.dtype == impl.dtype &&
           other.sizes == impl.sizes && other.strides == impl.strides;
  };
  if (std::ranges::none_of(before_, is_known)) before_.push_back(values_of(target));
}

bool Tape::has_changed(const Tensor& tensor) const {
  return std::ranges::any_of(before_,
                             [&](const Values& each) { return each.target.impl()->storage == tensor.impl()->storage; });
}

void Tape::begin() {
  context().save_listener = this;
  context().checkpoint = number_;
}

void Tape::end() {
  context().save_listener = outer_;
  context().checkpoint = outer_number_;
}

Tape::Values Tape::values_of(const Tensor& target) {
  return {target.detach(), copied(target, *target.impl()->storage->device, target.dtype()), target.version()};
}

// In reverse order, since views may overlap. Does not count as an in-place change: the versions are restored too.
void Tape::restore(const std::vector<Values>& all) {
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    copy_values(each->target, each->copy);
    each->target.impl()->storage->version = each->version;
  }
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
                  .checkpoint = number_,
                  .save_listener = &refill,
                  .printed = &printed};
  const ContextScope scope(same);
  std::optional<Autocast> region;
  if (autocast_) region.emplace(*autocast_);
  std::vector<Values> now;
  for (const Values& each : before_) now.push_back(values_of(each.target));
  restore(before_);
  try {
    again_(inputs);
  } catch (...) {
    restore(now);
    throw;
  }
  restore(now);
  refill.finish();
}

}  // namespace autograd

namespace detail {

CheckpointedScope::CheckpointedScope(std::vector<Tensor> inputs, std::function<void(std::span<const Tensor>)> again) {
  if (!context().recording) return;
  tape_ = std::make_shared<autograd::Tape>(inputs, std::move(again));
  tape_->begin();
}

CheckpointedScope::~CheckpointedScope() {
  if (tape_) tape_->end();
}

}  // namespace detail
}  // namespace lockstep
