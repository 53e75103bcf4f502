#include "autograd/views.h"

#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "core/ranked_mutex.h"
#include "core/text.h"
#include "tensor/copy.h"
#include "tensor/overlap.h"

namespace lockstep::autograd {
namespace {

// The layouts of a base and of a view, which together give the position of each element of the view in its base.
struct Part {
  Shape base_sizes, base_strides, sizes, strides;
  std::int64_t offset = 0;

  explicit Part(const TensorImpl& view) : sizes(view.sizes), strides(view.strides) {
    const TensorImpl& base = *view.base.impl();
    base_sizes = base.sizes;
    base_strides = base.strides;
    offset = view.offset - base.offset;
  }

  Tensor of(const Tensor& whole) const { return make_view(whole, sizes, strides, whole.impl()->offset + offset); }

  // A new tensor with the base's layout, which may have gaps, and with the gradient's dtype and device.
  Tensor whole_like(const Tensor& gradient) const {
    std::int64_t extent = base_sizes.elements() > 0;
    for (int i = 0; i < base_sizes.rank() && extent > 0; ++i) extent += (base_sizes[i] - 1) * base_strides[i];
    const Tensor memory = make_tensor(*gradient.impl()->storage->device, {extent}, gradient.dtype());
    return make_view(memory, base_sizes, base_strides, 0);
  }
};

Tensor view_values(const Part& part, const Tensor& whole);

// A tensor like the base with `gradient` in the view's elements and zeros elsewhere. If several elements of an expanded
// view are one element of the base, their gradients are summed.
Tensor embed_in_base(const Part& part, const Tensor& gradient) {
  Tensor whole = part.whole_like(gradient);
  fill_values(whole, 0);
  Part once = part;
  Tensor sum = gradient;
  for (int i = 0; i < once.sizes.rank(); ++i)
    if (once.strides[i] == 0 && once.sizes[i] > 1) {
      sum = sum.sum({i}, true);
      once.sizes[i] = 1;
    }
  if (overlaps_itself(*once.of(whole).impl()))
    throw AutogradError(
        text("[backward] a view of shape ", part.sizes, " with strides ", part.strides,
             " has overlapping elements, and its base was changed in place after the view was made: make the view "
             "after the in-place change"));
  copy_values(once.of(whole), sum);
  if (records(gradient))
    record("Scatter", whole, {&gradient}, [part](const Tensor& g) { return Gradients{view_values(part, g)}; });
  return whole;
}

// A copy of the view's elements of `whole`.
Tensor view_values(const Part& part, const Tensor& whole) {
  Tensor laid_out = whole;
  if (whole.strides() != part.base_strides) {
    laid_out = part.whole_like(whole);
    copy_values(laid_out, whole);
  }
  Tensor out = make_tensor(*whole.impl()->storage->device, part.sizes, whole.dtype());
  copy_values(out, part.of(laid_out));
  if (records(whole))
    record("AsStrided", out, {&whole}, [part](const Tensor& g) { return Gradients{embed_in_base(part, g)}; });
  return out;
}

// A copy of `whole` with `values` in the view's elements; zeros if `values` is undefined.
Tensor with_view_replaced(const Part& part, const Tensor& whole, const Tensor& values) {
  Tensor out = part.whole_like(whole);
  copy_values(out, whole);
  const bool any = values.defined();
  if (any)
    copy_values(part.of(out), values);
  else
    fill_values(part.of(out), 0);
  if (records(whole) || (any && records(values)))
    record("CopySlices", out, {&whole, any ? &values : &whole}, [part, any](const Tensor& g) {
      return Gradients{with_view_replaced(part, g, Tensor()), any ? view_values(part, g) : Tensor()};
    });
  return out;
}

// The node of a new version of a base after a change of one of its views. `change` is the node of the operation that
// computed the view's new values.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& view, std::shared_ptr<Node> change)
      : Node("CopySlices", view.device(), edges_of(view.impl()->base, *change)),
        part_(*view.impl()),
        change_(std::move(change)) {}

  Gradients backward(const Gradients& output_gradients) override {
    const Tensor& whole = output_gradients[0];
    Gradients gradients = change_->backward({view_values(part_, whole)});
    gradients[0] = edges[0].node ? with_view_replaced(part_, whole, gradients[0]) : Tensor();
    return gradients;
  }
  void release() override { change_->release(); }

 private:
  // The base's edge, and the edges of the other inputs of `change`.
  static std::vector<Edge> edges_of(const Tensor& base, Node& change) {
    std::vector<Edge> edges = std::exchange(change.edges, {});
    edges[0] = gradient_edge(base);
    return edges;
  }

  const Part part_;
  const std::shared_ptr<Node> change_;
};

}  // namespace

Tensor view_of(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset) {
  Tensor view = make_view(x, sizes, strides, offset);
  if (!is_floating(x.dtype())) return view;
  TensorImpl& impl = *view.impl();
  if (!grad_enabled()) {
    impl.hides_graph = x.impl()->hides_graph || needs_grad(x);
    return view;
  }
  impl.base = x.impl()->follows_base ? x.impl()->base : x;
  impl.base.impl()->views.fetch_add(1, std::memory_order_relaxed);
  impl.base_fn = grad_fn_of(*impl.base.impl());
  impl.follows_base = true;
  return view;
}

void stop_following_base(const Tensor& view) noexcept {
  TensorImpl& impl = *view.impl();
  if (std::exchange(impl.follows_base, false)) impl.base.impl()->views.fetch_sub(1, std::memory_order_release);
}

void regenerate_grad_fn(const Tensor& view) {
  // After a change of the base, two threads may renew the grad_fn of a view at once.
  static RankedMutex<LockRank::view> mutex;
  const std::scoped_lock lock(mutex);
  TensorImpl& impl = *view.impl();
  if (!has_stale_grad_fn(impl)) return;
  const auto backward = [part = Part(impl)](const Tensor& g) { return Gradients{embed_in_base(part, g)}; };
  Tensor same = view;
  attach(std::make_shared<LambdaNode<decltype(backward)>>("AsStrided", view.device(),
                                                          std::vector{gradient_edge(impl.base)}, backward),
         std::span(&same, 1));
  impl.base_fn.store(grad_fn_of(*impl.base.impl()), std::memory_order_release);
}

void attach_in_place(const std::shared_ptr<Node>& node, Tensor& target) {
  TensorImpl& impl = *target.impl();
  if (!impl.follows_base) return attach(node, std::span(&target, 1));
  attach(std::make_shared<CopySlices>(target, node), std::span(&impl.base, 1));
  regenerate_grad_fn(target);
}

}  // namespace lockstep::autograd
