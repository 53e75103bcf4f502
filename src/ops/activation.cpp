#include <lockstep/ops/activation.h>

#include "autograd/node.h"
#include "tensor/kernels/map.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::record;
using autograd::records;
using autograd::Saved;

struct Relu {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const { return x > T(0) || x != x ? x : T(0); }  // NaN stays NaN
};

// The gradient where the activation's output was positive.
struct ReluGradient {
  template <class T>
  LOCKSTEP_HD T operator()(T g, T y) const { return y > T(0) ? g : T(0); }
};

Tensor relu_gradient(const Tensor& g, const Tensor& y) {
  Tensor out = make_tensor(*g.impl()->storage->device, g.sizes(), g.dtype());
  visit_floating("relu", g.dtype(), [&]<class T>() { map<T, T, T>("relu_gradient", 1, ReluGradient(), out, g, y); });
  if (records(g))
    record("ReluGradient", out, {&g}, [y = Saved(y)](const Tensor& gg) { return Gradients{relu_gradient(gg, y.get())}; });
  return out;
}

}  // namespace

Tensor relu(const Tensor& x) {
  const TensorImpl& from = impl_of("relu", x);
  Tensor out = make_tensor(*from.storage->device, from.sizes, from.dtype);
  visit_floating("relu", from.dtype, [&]<class T>() { map<T, T>("relu", 1, Relu(), out, x); });
  if (records(x))
    record("Relu", out, {&x},
           [y = Saved(out, autograd::kOutput)](const Tensor& g) { return Gradients{relu_gradient(g, y.get())}; });
  return out;
}

}  // namespace lockstep
