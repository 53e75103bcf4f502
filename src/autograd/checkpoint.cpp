#include <lockstep/autograd/checkpoint.h>

#include <algorithm>
#include <string>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>

#include "autograd/checkpoint_frame.h"
#include "autograd/meta.h"
#include "autograd/record.h"
#include "core/ranked_mutex.h"
#include "core/text.h"
#include "runtime/device_thread.h"
#include "tensor/copy.h"

namespace lockstep {
namespace autograd {
namespace {

std::atomic<std::uint64_t> numbers = 0;  // number of checkpoints made so far

template <class T>
std::optional<T> value_of(const T* pointer) {
  return pointer ? std::optional<T>(*pointer) : std::nullopt;
}

// The grad_fn of an input whose graph was dropped: it only makes operations on the input be recorded. No backward runs
// this node.
class EndNode final : public Node {
 public:
  explicit EndNode(const Tensor& tensor) : Node("Checkpoint", tensor.device(), {}) {}
  Gradients backward(const Gradients&) override { return {}; }
};

// Keeps a copy of a saved tensor, because the function changes the tensor in place.
class Kept final : public SavedPlaceholder {
 public:
  explicit Kept(Tensor tensor) : tensor_(std::move(tensor)) {}
  Tensor get() override { return tensor_; }

 private:
  const Tensor tensor_;
};

// Returns the input such that operations on it are recorded as in the first run, even if an outer checkpoint has
// recomputed the input without its graph.
Tensor recorded_as_before(const Tensor& input, bool needed_grad) {
  if (!needed_grad || needs_grad(input)) return input;
  Tensor end = input.detach();
  attach(std::make_shared<EndNode>(end), std::span(&end, 1));
  return end;
}

}  // namespace

class CheckpointFrame::Recompute final : public SaveListener {
 public:
  Recompute(const CheckpointFrame& frame, bool connected, std::uint64_t backward)
      : frame_(frame), connected_(connected), backward_(backward) {}

  std::shared_ptr<SavedPlaceholder> on_save(const Tensor& tensor) override {
    const std::size_t at = next_++;
    if (!frame_.has_changed(tensor)) return fill_entry(at, tensor), nullptr;
    const Tensor copy = tensor.clone();
    fill_entry(at, copy);
    return std::make_shared<Kept>(copy);
  }

  // Refuses tensors that only the first run made: it changed them too.
  void on_in_place(const Tensor& target) override {
    if (target.impl()->storage->checkpoint == frame_.number_)
      throw AutogradError(text("[checkpoint] the function changes a tensor of shape ", target.sizes(),
                               " in place that its first run has made, so it would change twice: make it before"));
  }

  void finish() const {
    if (next_ != frame_.entries_.size())
      throw AutogradError(
          text("[checkpoint] the function must compute the same when it is run again for backward: it saved ",
               frame_.entries_.size(), " tensors in forward, and ", next_, " now"));
  }

 private:
  void fill_entry(std::size_t at, const Tensor& tensor) const {
    if (at >= frame_.entries_.size()) return;
    const std::shared_ptr<Entry> entry = frame_.entries_[at].lock();
    if (!entry) return;
    if (entry->sizes != tensor.sizes() || entry->dtype != tensor.dtype())
      throw AutogradError(
          text("[checkpoint] the function must compute the same when it is run again for backward: its "
               "saved tensor ",
               at, " was ", entry->sizes, ' ', entry->dtype, " in forward, and is ", tensor.sizes(), ' ',
               tensor.dtype(), " now"));
    if (frame_.is_older(tensor) && tensor.version() != entry->version)
      throw AutogradError(text("[checkpoint] the function reads a tensor of shape ", tensor.sizes(),
                               " that it did not make and that was changed in place after forward: change a clone() of "
                               "it, or call backward before"));
    entry->tensor = connected_ ? tensor : tensor.detach();
    entry->connected = connected_;
    entry->backward = backward_;
    entry->stream = current_stream(tensor.device());
  }

  const CheckpointFrame& frame_;
  const bool connected_;
  const std::uint64_t backward_;
  std::size_t next_ = 0;
};

// While it lives, the tensors that the function changes in place have other memory, with copies of their values. Other
// second runs that change these tensors wait until then.
class CheckpointFrame::OtherMemory {
 public:
  explicit OtherMemory(const std::vector<Values>& changed) {
    std::vector<const Tensor*> targets;  // by storage
    for (const Values& each : changed) {
      Storage* const storage = each.target.impl()->storage;
      if (std::ranges::find(storages_, storage) != storages_.end()) continue;
      storages_.push_back(storage);
      targets.push_back(&each.target);
    }
    if (!storages_.empty()) DeviceThread::wait_until([this] { return take(); });
    try {
      for (const Tensor* const target : targets) {
        const std::size_t count = target->impl()->storage->bytes / size_of(target->dtype());
        all_.push_back(values_of(make_view(*target, {std::int64_t(count)}, {1}, 0)));
      }
    } catch (...) {
      give_back();
      throw;
    }
    swap();
  }
  ~OtherMemory() {
    swap();
    for (const Values& each : all_) each.target.impl()->storage->version = each.version;
    give_back();
  }
  OtherMemory(const OtherMemory&) = delete;
  OtherMemory& operator=(const OtherMemory&) = delete;

 private:
  bool take() const {
    const std::scoped_lock lock(mutex);
    if (std::ranges::find_first_of(taken(), storages_) != taken().end()) return false;
    taken().insert(taken().end(), storages_.begin(), storages_.end());
    return true;
  }
  void give_back() const noexcept {
    if (storages_.empty()) return;
    {
      const std::scoped_lock lock(mutex);
      std::erase_if(taken(), [&](Storage* each) { return std::ranges::find(storages_, each) != storages_.end(); });
    }
    DeviceThread::notify();
  }
  void swap() const noexcept {
    for (const Values& each : all_) swap_memory(*each.target.impl()->storage, *each.copy.impl()->storage);
  }

  // The storages of all threads. Never destroyed: a thread may compute while the process ends.
  static std::vector<Storage*>& taken() {
    static auto* const all = new std::vector<Storage*>;
    return *all;
  }

  inline static RankedMutex<LockRank::other_memory> mutex;  // guards taken()

  std::vector<Storage*> storages_;
  std::vector<Values> all_;  // by storage: all of its memory
};

CheckpointFrame::CheckpointFrame(std::span<const Tensor> inputs, RecomputeFn recompute)
    : recompute_fn_(std::move(recompute)),
      number_(++numbers),
      outer_(context().save_listener),
      outer_number_(context().checkpoint),
      streams_(context().streams),
      random_(current_generator()),
      has_own_random_(context().generator != nullptr),
      batch_random_(value_of(context().batch_generator)),
      shard_(value_of(context().shard)),
      replica_(context().replica),
      autocast_(autocast_dtype()) {
  for (const Tensor& input : inputs)
    inputs_.push_back(input.defined() ? Input{Saved(input), autograd::needs_grad(input), {}} : Input{});
  first_inputs_.assign(inputs.begin(), inputs.end());
}

std::shared_ptr<SavedPlaceholder> CheckpointFrame::on_save(const Tensor& tensor) {
  auto entry = std::make_shared<Entry>();
  entry->frame = shared_from_this();
  entry->sizes = tensor.sizes();
  entry->dtype = tensor.dtype();
  entry->version = tensor.version();
  entries_.push_back(entry);
  return entry;
}

void CheckpointFrame::on_in_place(const Tensor& target) {
  if (outer_) outer_->on_in_place(target);
  if (!is_older(target)) return;
  const TensorImpl& impl = *target.impl();
  if (const Meta* const meta = meta_of(target); meta && meta->grad_fn && grad_enabled())
    throw AutogradError(text("[checkpoint] the function cannot change a tensor of shape ", target.sizes(),
                             " in place that it did not make and that has a graph, because it runs again: change a "
                             "clone() of it"));
  const auto is_known = [&](const Values& values) {
    const TensorImpl& other = *values.target.impl();
    return other.storage == impl.storage && other.offset == impl.offset && other.dtype == impl.dtype &&
           other.sizes == impl.sizes && other.strides == impl.strides;
  };
  if (std::ranges::none_of(before_, is_known)) before_.push_back(values_of(target));
}

// True if the function did not make the tensor's memory, in either run.
bool CheckpointFrame::is_older(const Tensor& tensor) const { return tensor.impl()->storage->checkpoint < number_; }

bool CheckpointFrame::has_changed(const Tensor& tensor) const {
  return std::ranges::any_of(before_,
                             [&](const Values& each) { return each.target.impl()->storage == tensor.impl()->storage; });
}

void CheckpointFrame::begin() {
  context().save_listener = this;
  context().checkpoint = number_;
}

void CheckpointFrame::end() {
  context().save_listener = outer_;
  context().checkpoint = outer_number_;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (first_inputs_[i].defined() && has_changed(first_inputs_[i])) inputs_[i].changed = first_inputs_[i];
  first_inputs_.clear();
  has_run_ = true;
}

CheckpointFrame::Values CheckpointFrame::values_of(const Tensor& target) {
  return {target.detach(), copied(target, *target.impl()->storage->device, target.dtype()), target.version()};
}

// Restores in reverse order, since views may overlap. Restores the version counters too: the second run is to find
// those of the first.
void CheckpointFrame::restore(const std::vector<Values>& all) {
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    copy_values(each->target, each->copy);
    each->target.impl()->storage->version = each->version;
  }
}

Tensor CheckpointFrame::tensor_of(Entry& entry) {
  if (!has_run_)
    throw AutogradError(
        "[checkpoint] the function cannot call backward() or gradients() on what it computes itself, because its saved "
        "tensors are dropped: call them after checkpoint(), or call the function without it");
  DeviceThread::wait_until([this] { return !busy_.exchange(true); });
  struct Free {
    CheckpointFrame& frame;
    ~Free() {
      frame.busy_ = false;
      DeviceThread::notify();
    }
  } const free{*this};
  const RunningNode* const running = RunningNode::current();
  const std::uint64_t backward = running ? running->in.id : 0;
  if (!entry.tensor.defined() || entry.backward != backward || (grad_enabled() && !entry.connected))
    run_again(grad_enabled(), backward);
  if (!entry.tensor.defined()) return {};
  // The second run may take another stream than the first, such as one from the pool.
  if (const Stream reader = current_stream(entry.tensor.device()); reader != *entry.stream) {
    reader.wait(entry.stream->record());
    entry.tensor.record_stream(reader);
  }
  return entry.tensor;
}

void CheckpointFrame::run_again(bool connected, std::uint64_t backward) {
  std::vector<Tensor> inputs;
  for (const Input& input : inputs_) {
    const Tensor tensor = input.changed.defined() ? input.changed : input.saved.get();
    inputs.push_back(tensor.defined() ? recorded_as_before(tensor, input.needs_grad) : tensor);
  }
  GeneratorState own_random = random_, process_random = random_;
  std::optional<GeneratorState> batch_random = batch_random_;
  std::string printed;
  Recompute recompute(*this, connected, backward);
  Context same = {.streams = streams_,
                  .in_pass = context().in_pass,
                  .generator = has_own_random_ ? &own_random : nullptr,
                  .process_sequence = &process_random,
                  .shard = shard_ ? &*shard_ : nullptr,
                  .batch_generator = batch_random ? &*batch_random : nullptr,
                  .replica = replica_,
                  .replay_values = context().replay_values,
                  .checkpoint = ++numbers,  // tells what this run makes from what the first made
                  .save_listener = &recompute,
                  .printed = &printed};
  const ContextScope scope(same);
  std::optional<Autocast> region;
  if (autocast_) region.emplace(*autocast_);
  {
    const OtherMemory memory(before_);
    restore(before_);
    recompute_fn_(inputs);
  }
  recompute.finish();
}

}  // namespace autograd

namespace detail {

CheckpointedScope::CheckpointedScope(std::vector<Tensor> inputs, std::function<void(std::span<const Tensor>)> again) {
  if (!context().recording) return;
  frame_ = std::make_shared<autograd::CheckpointFrame>(inputs, std::move(again));
  frame_->begin();
}

CheckpointedScope::~CheckpointedScope() {
  if (frame_) frame_->end();
}

}  // namespace detail
}  // namespace lockstep
