// The graph: a node for each recorded operation, with edges to where the gradients of its inputs go.
//
//   Tensor y = ...;
//   const auto backward = [y = Saved(y, kOutput)](const Tensor& gy) { return Gradients{gy * y.get()}; };
//   if (records(x)) record("Exp", y, {&x}, backward);
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/grad_mode.h>

#include "tensor/tensor_impl.h"

namespace lockstep::autograd {

class Node;

/// One for each input of an operation; undefined where no gradient flows.
using Gradients = std::vector<Tensor>;

/// The input `slot` of `node`, which is the output of the forward operation.
struct Edge {
  std::shared_ptr<Node> node;
  int slot = 0;
};

/// Functions that are called in the order in which they came, until their handles remove them.
template <class Function>
class Hooks {
 public:
  HookHandle add(Function function) {
    const auto hooks = std::make_shared<List>();
    each([&](const std::shared_ptr<Hook>& hook) { hooks->push_back(hook); });
    const auto& added = hooks->emplace_back(std::make_shared<Hook>(std::move(function)));
    hooks_ = hooks;
    return HookHandle(added);
  }
  bool empty() const noexcept {
    return !hooks_ || std::none_of(hooks_->begin(), hooks_->end(), [](const auto& hook) { return hook->function(); });
  }
  /// A hook may add others: these are called next time.
  template <class Call>
  void call_each(const Call& call) const {
    each([&](const std::shared_ptr<Hook>& hook) {
      if (const auto function = hook->function()) call(*function);
    });
  }
  bool is_new() const noexcept { return !hooks_; }  ///< None was ever added.
  /// All of them, for whoever lets go of them.
  std::shared_ptr<const void> take() noexcept { return std::move(hooks_); }

 private:
  class Hook final : public RemovableHook {
   public:
    explicit Hook(Function function) : function_(std::make_shared<const Function>(std::move(function))) {}
    /// Null once it was removed. A call keeps it.
    std::shared_ptr<const Function> function() const {
      const std::scoped_lock lock(mutex_);
      return function_;
    }
    void remove() noexcept override {
      std::shared_ptr<const Function> gone;  // what it holds goes outside the lock
      const std::scoped_lock lock(mutex_);
      gone.swap(function_);
    }

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Function> function_;
  };
  using List = std::vector<std::shared_ptr<Hook>>;

  template <class Visit>
  void each(const Visit& visit) const {
    if (const auto hooks = hooks_)
      for (const std::shared_ptr<Hook>& hook : *hooks)
        if (hook->function()) visit(hook);
  }

  std::shared_ptr<const List> hooks_;  // replaced whole, so that a call in progress keeps its own
};

class Node {
 public:
  Node(const char* op, const Device& device);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// From the gradients of the outputs (undefined where none arrived) to those of the inputs.
  virtual Gradients backward(const Gradients& output_gradients) = 0;
  /// Lets go of saved tensors; a later backward() throws AutogradError.
  virtual void release() {}
  /// The tensor whose gradient ends here; null for a node of an operation.
  virtual const Tensor* leaf() const noexcept { return nullptr; }

  const char* const op;          ///< The forward operation, such as "Addmm".
  const std::string name;        ///< "AddmmBackward".
  const std::uint64_t sequence;  ///< Grows with each node of this process: consumers come after producers.
  const Stream stream;           ///< Where the forward operation ran.
  int outputs = 1;
  std::vector<Edge> edges;  ///< One for each input.

  Hooks<std::pair<int, std::function<Tensor(const Tensor&)>>> hooks;  ///< By output.
};

/// Elements of a tensor, in the order in which they lie.
struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Share&) const = default;
};

/// Hears of the gradients of a set of leaves during a backward: how those of replicas are summed, and what is divided
/// between them put together. Leaves are known by the numbers that their Meta gives them.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Before the backward, on its caller's thread: these leaves will get gradients, in this order on each device, as far
  /// as the order of the forward operations says.
  virtual void begin(std::span<const std::size_t> leaves) = 0;
  /// The gradient of a leaf was accumulated, on the current stream of the leaf's device. From any thread.
  virtual void ready(std::size_t leaf) = 0;
  /// Backward came to a leaf and brought it no gradient. From any thread.
  virtual void absent(std::size_t leaf) = 0;
  /// After the backward, failed or not, on its caller's thread.
  virtual void end() = 0;

  /// Makes what a leaf has the gradient that counts: summed over its places, whole. Does nothing during a backward.
  virtual void complete_gradient(std::size_t /*leaf*/) {}
  /// Before all places of the sink's leaves are used: sums gradients that are not summed yet, and brings to the
  /// replicas what was changed in the primary alone, gradients and values. Throws AutogradError during a backward.
  virtual void settle() {}
  virtual bool is_running() { return false; }  ///< Whether a backward brings gradients.
  /// Another sink takes its leaves over. Throws AutogradError during a backward.
  virtual void give_up() {}
  virtual std::span<const Device> devices_used() const noexcept { return {}; }
  /// Each place of these leaves has changed in its share: brings all shares to all places, on the current streams.
  virtual void gather_leaves(std::span<const std::size_t> /*leaves*/) {}
};

/// Leaves of one sink, by their numbers.
struct SinkLeaves {
  std::shared_ptr<GradientSink> sink;
  std::vector<std::size_t> leaves;
};

/// What autograd keeps with a tensor.
struct Meta final : AutogradState {
  Meta() = default;
  ~Meta() override;
  Meta(const Meta&) = delete;
  Meta& operator=(const Meta&) = delete;

  bool leaf_requires_grad = false;
  Tensor grad;
  std::shared_ptr<Node> grad_fn;  ///< Null for a leaf.
  int output = 0;                 ///< Which of grad_fn's outputs this is.
  std::weak_ptr<Node> accumulator;
  /// The same parameter on other devices: what changes this one in lockstep (an optimizer) changes those too.
  std::vector<Tensor> replicas;
  bool was_replicated = false;  ///< Has replicas, or had.
  std::weak_ptr<GradientSink> sink;
  std::size_t sink_number = 0;
  Tensor grad_slot;  ///< If defined, the memory that the gradient is kept in.
  /// Of a parameter that its places divide: what this one keeps of the summed gradient, and updates. The places' shares
  /// follow each other.
  std::optional<Share> share;
  bool scattered = false;      ///< The gradient is the sum in the share only: grad() gathers it first.
  bool unsummed = false;       ///< Of a primary: its places have parts of the gradient. grad() sums them first.
  bool retired = false;        ///< Of a replica that others have replaced: a gradient would be lost here.
  bool replaces_grad = false;  ///< The next gradient takes the place of the present one outside of the share.
  Hooks<std::function<Tensor(const Tensor&)>> leaf_hooks;
  Hooks<std::function<void(const Tensor&)>> accumulated_hooks;

  /// Whether the next gradient adds to the present one.
  bool adds() const noexcept { return grad.defined() && (!replaces_grad || share); }

  std::string_view grad_fn_name() const noexcept override { return grad_fn ? std::string_view(grad_fn->name) : ""; }
  bool requires_grad() const noexcept override { return leaf_requires_grad || grad_fn; }
};

inline Meta* meta_of(const Tensor& tensor) noexcept { return static_cast<Meta*>(tensor.impl()->autograd.get()); }
Meta& make_meta(const Tensor& tensor);
/// Drops the gradient of a tensor and of its replicas.
void clear_grad(const Tensor& tensor) noexcept;
/// To be called before somebody sets, drops or zeroes a gradient. Throws AutogradError during a backward that sums it.
void check_idle(const char* op, const Tensor& tensor);
/// Zeroes what the next gradient replaces.
void keep_share(const Meta& meta);
/// The same in any tensor that has the elements of the parameter in their order.
void keep_share(const Tensor& all, Share share);
/// Adds a leaf to those of its sink, if it has one.
void add_leaf(std::vector<SinkLeaves>& sinks, const Tensor& leaf);

inline bool needs_grad(const Tensor& tensor) noexcept {
  const auto& state = tensor.impl()->autograd;
  return state && state->requires_grad();
}

/// True if an operation on these inputs is to be recorded.
template <class... Tensors>
bool records(const Tensors&... inputs) noexcept {
  return (needs_grad(inputs) || ...) && grad_enabled();
}
inline bool any_records(std::span<const Tensor> inputs) noexcept {
  return grad_enabled() && std::any_of(inputs.begin(), inputs.end(), needs_grad);
}

/// Where the gradient of `tensor` goes: its grad_fn, its accumulator if it is a leaf, or nowhere.
Edge gradient_edge(const Tensor& tensor);

enum class SavedAs : std::uint8_t { input, output };
inline constexpr SavedAs kOutput = SavedAs::output;

/// A tensor that backward will need. While it is kept, a change in place of the tensor that would be recorded is
/// refused.
class Saved {
 public:
  Saved() = default;
  /// An output is kept without its node, which will hold it: that would be a circle.
  explicit Saved(const Tensor& tensor, SavedAs as = SavedAs::input);
  Saved(const Saved& other) noexcept : tensor_(other.tensor_), version_(other.version_), as_(other.as_) { count(); }
  Saved(Saved&&) noexcept = default;
  Saved& operator=(Saved other) noexcept {
    std::swap(tensor_, other.tensor_);
    std::swap(version_, other.version_);
    std::swap(as_, other.as_);
    return *this;
  }
  ~Saved() {
    if (tensor_.defined()) tensor_.impl()->saves.fetch_sub(1, std::memory_order_relaxed);
  }

  /// The tensor, connected to the graph again: to be called from backward. Throws AutogradError when the tensor was
  /// changed in place since.
  Tensor get() const;

 private:
  void count() const noexcept {
    if (tensor_.defined()) tensor_.impl()->saves.fetch_add(1, std::memory_order_relaxed);
  }

  Tensor tensor_;
  std::uint64_t version_ = 0;
  SavedAs as_ = SavedAs::input;
};

/// A node whose backward is a function object: Gradients(const Tensor& gy) for one output, or
/// Gradients(const Gradients&) for several.
template <class Backward>
class LambdaNode final : public Node {
 public:
  LambdaNode(const char* forward_op, const Device& device, Backward body)
      : Node(forward_op, device), body_(std::move(body)) {}

  Gradients backward(const Gradients& output_gradients) override {
    if (!body_) throw_released();
    if constexpr (std::is_invocable_v<Backward&, const Tensor&>) {
      return (*body_)(output_gradients[0]);
    } else {
      return (*body_)(output_gradients);
    }
  }
  void release() override { body_.reset(); }

 private:
  [[noreturn]] void throw_released() const;
  std::optional<Backward> body_;
};

void attach(const std::shared_ptr<Node>& node, std::initializer_list<Tensor*> outputs);
[[noreturn]] void throw_released(const char* op);

template <class Backward>
void LambdaNode<Backward>::throw_released() const {
  autograd::throw_released(op);
}

/// Makes `output` the result of operation `op` on `inputs`. To be called only if records(inputs...).
template <class Backward>
void record(const char* op, Tensor& output, std::initializer_list<const Tensor*> inputs, Backward body) {
  auto node = std::make_shared<LambdaNode<Backward>>(op, output.device(), std::move(body));
  node->edges.reserve(inputs.size());
  for (const Tensor* input : inputs) node->edges.push_back(gradient_edge(*input));
  attach(node, {&output});
}

/// For an operation on any number of inputs or with several outputs.
template <class Backward>
void record_many(const char* op, std::span<Tensor> outputs, std::span<const Tensor> inputs, Backward body) {
  auto node = std::make_shared<LambdaNode<Backward>>(op, outputs[0].device(), std::move(body));
  node->edges.reserve(inputs.size());
  for (const Tensor& input : inputs) node->edges.push_back(gradient_edge(input));
  node->outputs = int(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Meta& meta = make_meta(outputs[i]);
    meta.grad_fn = node;
    meta.output = int(i);
  }
}

/// What a node may ask of the backward that runs it.
class Pass {
 public:
  /// Whether the gradient that goes along the edge is the only one that will be accumulated there.
  virtual bool brings_all(const Edge& edge) const = 0;

 protected:
  ~Pass() = default;
};

/// While it lives, `node` is the one that this thread runs backward of.
class RunningNode {
 public:
  RunningNode(const std::shared_ptr<Node>& node, const Pass& pass) noexcept;
  ~RunningNode();
  RunningNode(const RunningNode&) = delete;
  RunningNode& operator=(const RunningNode&) = delete;

  const std::shared_ptr<Node>& node;
  const Pass& pass;

 private:
  const RunningNode* const outer_;
};

/// To be called from backward: where the gradient of the node's input `input` will be kept, if it can be written there
/// at once, on the node's stream, and returned; else undefined. Spares a copy.
Tensor gradient_place(int input);

void check_recorded_in_place(const char* op, const Tensor& target);
void check_memory_in_place(const char* op, const Tensor& target, const Tensor& input);

/// To be called by an operation before it changes `target` in place, reading `inputs`. Throws InvalidArgument where the
/// result would depend on the order of elements: a target that repeats its memory (expand), an input that shares the
/// target's memory other than element by element. Where the change will be recorded, throws AutogradError for what
/// recording could not follow: a leaf that requires a gradient, or memory that another tensor shares (a view, or a
/// value saved for backward).
template <class... Tensors>
void check_in_place(const char* op, const Tensor& target, const Tensors&... inputs) {
  const TensorImpl& own = impl_of(op, target);
  (impl_of(op, inputs), ...);
  [[maybe_unused]] const auto apart = [&](const TensorImpl& input) {
    return input.storage != own.storage || &input == &own;
  };
  if (!(own.contiguous && (apart(*inputs.impl()) && ...))) {
    check_memory_in_place(op, target, target);
    (check_memory_in_place(op, target, inputs), ...);
  }
  if (records(target, inputs...)) check_recorded_in_place(op, target);
}

/// What a hook made of a gradient: its result, or the gradient itself if that is undefined. Throws ShapeError,
/// DTypeError or DeviceMismatch naming `op` for a result that is not like the gradient.
Tensor hooked(const char* op, const std::function<Tensor(const Tensor&)>& hook, const Tensor& gradient);

}  // namespace lockstep::autograd
