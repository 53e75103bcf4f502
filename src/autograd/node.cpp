#include "autograd/node.h"

#include <lockstep/autograd/autograd.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "core/context.h"
#include "core/text.h"
#include "tensor/copy.h"
#include "tensor/overlap.h"

namespace lockstep {

bool grad_enabled() noexcept { return context().recording; }
GradMode::GradMode(bool enabled) noexcept : outer_(std::exchange(context().recording, enabled)) {}
GradMode::~GradMode() { context().recording = outer_; }

namespace autograd {
namespace {

std::atomic<std::uint64_t> next_sequence = 0;

// What was let go on this thread. Letting go of one after the other here, and not each inside the other's destructor,
// is what keeps a long chain from overflowing the stack: of nodes, of gradients, and of tensors that hooks hold.
struct Dying {
  std::vector<std::shared_ptr<const void>> owned;  // nodes, and lists of hooks
  std::vector<Tensor> tensors;

  void add(std::shared_ptr<const void> object) noexcept {
    if (object) keep(owned, object);
  }
  void add(Tensor tensor) noexcept {
    if (tensor.defined()) keep(tensors, tensor);
  }

 private:
  template <class T>
  static void keep(std::vector<T>& list, T& object) noexcept {
    try {
      list.push_back(std::move(object));
    } catch (const std::bad_alloc&) {  // it goes at once, inside of its owner's destructor
    }
  }
};
thread_local Dying* dying = nullptr;

// `collect` adds what is let go to a Dying.
template <class Collect>
void let_go(const Collect& collect) {
  if (dying) return collect(*dying);
  Dying all;
  collect(all);
  dying = &all;
  while (!all.owned.empty() || !all.tensors.empty()) {
    if (all.owned.empty()) {
      const Tensor tensor = std::move(all.tensors.back());
      all.tensors.pop_back();
    } else {
      const std::shared_ptr<const void> object = std::move(all.owned.back());
      all.owned.pop_back();
    }
  }
  dying = nullptr;
}

// Where the gradient of a leaf ends.
class Accumulate final : public Node {
 public:
  explicit Accumulate(const Tensor& leaf) : Node("Accumulate", leaf.device()), leaf_(leaf) {}

  Gradients backward(const Gradients& gradients) override {
    Meta& meta = *meta_of(leaf_);
    if (!gradients[0].defined()) {
      if (const auto sink = meta.sink.lock()) sink->absent(meta.sink_number);
      return {};
    }
    Tensor gradient = gradients[0];
    meta.leaf_hooks.call_each([&](const auto& hook) { gradient = hooked(op, hook, gradient); });
    check(gradient);
    accumulate(meta, gradient, gradient.is_same(gradients[0]) ? 2 : 1);
    meta.accumulated_hooks.call_each([&](const auto& hook) { hook(leaf_); });
    if (const auto sink = meta.sink.lock()) sink->ready(meta.sink_number);
    return {};
  }
  const Tensor* leaf() const noexcept override { return &leaf_; }

 private:
  void accumulate(Meta& meta, const Tensor& gradient, std::uint32_t handles) {
    const std::scoped_lock lock(mutex_);
    if (meta.grad.defined() && meta.grad_slot.defined() && !meta.grad.is_same(meta.grad_slot))
      meta.grad = stored(meta.grad, meta.grad_slot);  // one that the user has set
    const bool adds = meta.adds();
    if (adds && meta.replaces_grad) keep_share(meta);
    if (!adds)
      meta.grad = meta.grad_slot.defined() ? stored(gradient, meta.grad_slot) : keep(gradient, handles);
    else if (grad_enabled() && !meta.grad_slot.defined())
      meta.grad = meta.grad.clone().add_(gradient);
    else
      add(meta.grad, gradient);
    meta.replaces_grad = meta.scattered = false;
  }

  static void add(Tensor& sum, const Tensor& gradient) {
    const NoGrad guard;
    sum.add_(gradient);
  }

  static Tensor stored(const Tensor& gradient, const Tensor& slot) {
    if (!gradient.is_same(slot)) copy_values(slot, gradient);  // else gradient_place() gave it
    bump_version(slot);
    return slot;
  }

  // The leaf may have moved since the forward operation.
  void check(const Tensor& gradient) const {
    const TensorImpl &leaf = *leaf_.impl(), &got = *gradient.impl();
    if (leaf.storage->device == got.storage->device && leaf.dtype == got.dtype && leaf.sizes == got.sizes) return;
    throw AutogradError(text("[backward] expected a gradient like its leaf, ", leaf.sizes, " of ", leaf.dtype, " on ",
                             leaf_.device(), ", got ", got.sizes, " of ", got.dtype, " on ", gradient.device()));
  }

  // Somebody else may hold the gradient (more than the given handles of ours) or its memory, it may be an expanded
  // view, or a small part of a large array: then keep a copy.
  static Tensor keep(const Tensor& gradient, std::uint32_t handles) {
    const TensorImpl& impl = *gradient.impl();
    const bool own = impl.references == handles && impl.storage->references == 1 && impl.contiguous &&
                     impl.storage->bytes == std::size_t(impl.numel) * size_of(impl.dtype);
    return own ? gradient : gradient.clone();
  }

  Tensor leaf_;
  std::mutex mutex_;  // several backwards may come at once
};

}  // namespace

Node::Node(const char* forward_op, const Device& device)
    : op(forward_op),
      name(std::string(forward_op) + "Backward"),
      sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      stream(current_stream(device)) {}

Node::~Node() {
  let_go([this](Dying& all) {
    for (Edge& edge : edges) all.add(std::move(edge.node));
  });
}

Meta::~Meta() {
  const bool last_of_node = grad_fn && grad_fn.use_count() == 1;
  if (!last_of_node && !grad.defined() && leaf_hooks.is_new() && accumulated_hooks.is_new()) return;
  let_go([&](Dying& all) {
    all.add(std::move(grad_fn));
    all.add(leaf_hooks.take());
    all.add(accumulated_hooks.take());
    all.add(std::move(grad));
  });
}

Meta& make_meta(const Tensor& tensor) {
  auto& state = tensor.impl()->autograd;
  if (!state) state = std::make_unique<Meta>();
  return static_cast<Meta&>(*state);
}

void clear_grad(const Tensor& tensor) noexcept {
  Meta* const meta = meta_of(tensor);
  if (!meta) return;
  meta->grad = Tensor();
  meta->replaces_grad = meta->scattered = meta->unsummed = false;
  for (const Tensor& replica : meta->replicas) clear_grad(replica);
}

void check_idle(const char* op, const Tensor& tensor) {
  const Meta* const meta = meta_of(tensor);
  const auto sink = meta ? meta->sink.lock() : nullptr;
  if (sink && sink->is_running())
    throw AutogradError(text("[", op, "] expected no backward through the parameter's model at that time, got one"));
}

void keep_share(const Meta& meta) { keep_share(meta.grad_slot, meta.share.value_or(Share())); }

void keep_share(const Tensor& all, Share share) {
  const auto [begin, end] = share;
  const auto zero = [&](std::int64_t from, std::int64_t to) {
    if (from < to) fill_values(make_view(all, {to - from}, {1}, all.impl()->offset + from), 0);
  };
  zero(0, begin);
  zero(end, all.numel());
}

void add_leaf(std::vector<SinkLeaves>& sinks, const Tensor& leaf) {
  const Meta* const meta = meta_of(leaf);
  std::shared_ptr<GradientSink> sink = meta ? meta->sink.lock() : nullptr;
  if (!sink) return;
  auto own = std::find_if(sinks.begin(), sinks.end(), [&](const SinkLeaves& each) { return each.sink == sink; });
  if (own == sinks.end()) own = sinks.insert(own, {std::move(sink), {}});
  own->leaves.push_back(meta->sink_number);
}

Edge gradient_edge(const Tensor& tensor) {
  if (!needs_grad(tensor)) return {};
  Meta& meta = *meta_of(tensor);
  if (meta.grad_fn) return {meta.grad_fn, meta.output};
  // Replicas' threads may record the same leaf at once.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Node> accumulator = meta.accumulator.lock();
  if (!accumulator) meta.accumulator = accumulator = std::make_shared<Accumulate>(tensor);
  return {accumulator, 0};
}

RunningNode::RunningNode(const std::shared_ptr<Node>& which, const Pass& in) noexcept
    : node(which), pass(in), outer_(std::exchange(context().running_node, this)) {}
RunningNode::~RunningNode() { context().running_node = outer_; }

Tensor gradient_place(int input) {
  const RunningNode* const running = context().running_node;
  if (!running || grad_enabled()) return {};
  const Edge& edge = running->node->edges[std::size_t(input)];
  const Tensor* const leaf = edge.node ? edge.node->leaf() : nullptr;
  if (!leaf) return {};
  const Meta& meta = *meta_of(*leaf);
  return meta.grad_slot.defined() && meta.leaf_hooks.empty() && !meta.adds() && running->pass.brings_all(edge)
             ? meta.grad_slot
             : Tensor();
}

Saved::Saved(const Tensor& tensor, SavedAs as) : version_(tensor.version()), as_(as) {
  tensor_ = as == SavedAs::output ? tensor.detach() : tensor;
  count();
}

Tensor Saved::get() const {
  const RunningNode* const running = context().running_node;
  if (!tensor_.defined()) return tensor_;
  if (tensor_.version() != version_)
    throw AutogradError(text("[", running ? running->node->name : "backward", "] expected a saved tensor of shape ",
                             tensor_.sizes(), " at version ", version_, ", got version ", tensor_.version(),
                             ": it was changed in place"));
  if (as_ == SavedAs::input || !grad_enabled() || !running) return tensor_;
  Tensor output = tensor_.detach();
  make_meta(output).grad_fn = running->node;
  return output;
}

void throw_released(const char* op) {
  throw AutogradError(text("[", op,
                           "Backward] expected a graph that still holds its saved tensors, got one that an earlier "
                           "backward() let go: pass retain_graph to that one"));
}

void attach(const std::shared_ptr<Node>& node, std::initializer_list<Tensor*> outputs) {
  node->outputs = int(outputs.size());
  int slot = 0;
  for (Tensor* output : outputs) {
    Meta& meta = make_meta(*output);
    meta.grad_fn = node;
    meta.output = slot++;
  }
}

void check_recorded_in_place(const char* op, const Tensor& target) {
  if (needs_grad(target) && !meta_of(target)->grad_fn)
    throw AutogradError(text("[", op, "] expected a tensor that may change in place, got a leaf of shape ",
                             target.sizes(), " that requires a gradient: change it under NoGrad"));
  if (target.impl()->storage->references != 1 || target.impl()->saves != 0)
    throw AutogradError(text("[", op,
                             "] expected memory of its own for a recorded change in place, got a tensor of shape ",
                             target.sizes(), " that shares it with a view or with a value saved for backward"));
}

void check_memory_in_place(const char* op, const Tensor& target, const Tensor& input) {
  const TensorImpl &written = *target.impl(), &read = *input.impl();
  if (overlaps_itself(written))
    throw InvalidArgument(
        text("[", op, "] expected a target whose elements have memory of their own, got an expanded view of shape ",
             written.sizes, " with strides ", written.strides));
  if (overlaps_elsewhere(written, read))
    throw InvalidArgument(text("[", op,
                               "] expected an argument apart from the memory that changes, got a view of shape ",
                               read.sizes, " that overlaps the target of shape ", written.sizes, ": clone() it first"));
}

Tensor hooked(const char* op, const std::function<Tensor(const Tensor&)>& hook, const Tensor& gradient) {
  Tensor changed = hook(gradient);
  if (!changed.defined()) return gradient;
  check_same_device(op, gradient, changed);
  if (changed.sizes() != gradient.sizes())
    throw ShapeError(
        text("[", op, "] expected a hook to keep the shape ", gradient.sizes(), ", got ", changed.sizes()));
  if (changed.dtype() != gradient.dtype())
    throw DTypeError(
        text("[", op, "] expected a hook to keep the dtype ", gradient.dtype(), ", got ", changed.dtype()));
  return changed;
}

}  // namespace autograd

bool Tensor::requires_grad() const {
  const auto& state = impl_of("requires_grad", *this).autograd;
  return state && state->requires_grad();
}

Tensor& Tensor::requires_grad_(bool requires_grad) {
  const TensorImpl& impl = impl_of("requires_grad_", *this);
  if (requires_grad && !is_floating(impl.dtype))
    throw AutogradError(text("[requires_grad_] expected a floating dtype, got ", impl.dtype));
  if (!is_leaf()) {
    if (requires_grad) return *this;
    throw AutogradError("[requires_grad_] expected a leaf, got the result of an operation: use detach()");
  }
  if (requires_grad || impl.autograd) autograd::make_meta(*this).leaf_requires_grad = requires_grad;
  return *this;
}

bool Tensor::is_leaf() const {
  impl_of("is_leaf", *this);
  const autograd::Meta* meta = autograd::meta_of(*this);
  return !meta || !meta->grad_fn;
}

Tensor Tensor::grad() const {
  impl_of("grad", *this);
  const autograd::Meta* meta = autograd::meta_of(*this);
  if (!meta) return {};
  if (const auto sink = meta->sink.lock()) sink->complete_gradient(meta->sink_number);
  return meta->grad;
}

void Tensor::set_grad(const Tensor& grad) {
  const TensorImpl& impl = impl_of("set_grad", *this);
  if (grad.defined()) {
    check_same_device("set_grad", *this, grad);
    if (grad.is_same(*this))
      throw InvalidArgument("[set_grad] expected another tensor as the gradient, got the tensor itself");
    if (grad.sizes() != impl.sizes)
      throw ShapeError(text("[set_grad] expected a gradient of shape ", impl.sizes, ", got ", grad.sizes()));
    if (grad.dtype() != impl.dtype)
      throw DTypeError(text("[set_grad] expected a gradient of ", impl.dtype, ", got ", grad.dtype()));
  }
  autograd::check_idle("set_grad", *this);
  autograd::Meta& meta = autograd::make_meta(*this);
  Tensor taken = grad;
  if (const TensorImpl* const slot = meta.grad_slot.impl(); slot && grad.defined() &&
                                                            slot->storage->device == impl.storage->device &&
                                                            slot->dtype == impl.dtype && slot->sizes == impl.sizes) {
    copy_values(meta.grad_slot, grad.impl()->storage == slot->storage ? grad.detach().clone() : grad);
    bump_version(meta.grad_slot);
    taken = meta.grad_slot;
  }
  autograd::clear_grad(*this);
  meta.grad = taken;
}

std::string_view Tensor::grad_fn() const {
  const auto& state = impl_of("grad_fn", *this).autograd;
  return state ? state->grad_fn_name() : std::string_view();
}

Tensor Tensor::detach() const {
  const TensorImpl& impl = impl_of("detach", *this);
  return make_view(*this, impl.sizes, impl.strides, impl.offset);
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  lockstep::backward(std::span(this, 1), std::span(&gradient, 1), {retain_graph, create_graph});
}

HookHandle register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook) {
  impl_of("register_hook", tensor);
  if (!autograd::needs_grad(tensor))
    throw AutogradError("[register_hook] expected a tensor that requires a gradient, got one that does not");
  if (!hook) throw InvalidArgument("[register_hook] expected a function, got none");
  autograd::Meta& meta = *autograd::meta_of(tensor);
  return meta.grad_fn ? meta.grad_fn->hooks.add({meta.output, std::move(hook)}) : meta.leaf_hooks.add(std::move(hook));
}

HookHandle register_accumulated_hook(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  impl_of("register_accumulated_hook", leaf);
  if (!leaf.is_leaf() || !leaf.requires_grad())
    throw AutogradError("[register_accumulated_hook] expected a leaf that requires a gradient, got another tensor");
  if (!hook) throw InvalidArgument("[register_accumulated_hook] expected a function, got none");
  return autograd::make_meta(leaf).accumulated_hooks.add(std::move(hook));
}

}  // namespace lockstep
