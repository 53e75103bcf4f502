// unary() and binary() make elementwise operations from function objects. The arithmetic is written once:
//
//   struct Tanh {
//     template <class T>
//     LOCKSTEP_HD T operator()(T x) const { return tanh(x); }
//     template <class T>
//     LOCKSTEP_HD T gradient(const T& g, const T& y) const { return g * (1 - y * y); }
//   };
//   Tensor tanh(const Tensor& x) { return unary<kOutput>("tanh", "Tanh", x, Tanh()); }
//
// A gradient is compiled twice: for numbers, as the one kernel of an ordinary backward; and for tensors, as a
// composition of differentiable operations, if backward is recorded. So gradients of any order exist; for 16-bit
// tensors they are computed in float32, as in the kernel. Write whole constants as they are, other numbers as
// ConstantOf<T>(0.5), conditions as where(x > 0, g, 0).
#pragma once

#include <cmath>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/numbers.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

#include "kernels/map/map.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/images.h"
#include "ops/record.h"

namespace lockstep {

/// An uninitialized tensor of the shape that a and b broadcast to.
inline Tensor broadcast_result(const char* op, const Tensor& a, const Tensor& b, DType dtype) {
  const Shape& x = a.impl()->sizes;
  const Shape& y = b.impl()->sizes;
  return make_like_either(a, b, x == y ? x : broadcast(op, x, y), dtype);
}

/// A number as a tensor for an operation with `like`: in like's dtype if that can hold the number. If `like` has
/// dimensions, the result has one dimension, so that the result's dtype counts in promotion.
Tensor number_beside(const Tensor& like, double number);

namespace elementwise {

template <class F>
struct Gradient {
  static constexpr bool kArithmetic = kIsArithmetic<F>;
  F f;
  template <class T>
  LOCKSTEP_HD T operator()(T g, T saved) const {
    return f.gradient(g, saved);
  }
};
template <class F>
struct First {
  static constexpr bool kArithmetic = kIsArithmetic<F>;
  F f;
  template <class T>
  LOCKSTEP_HD T operator()(T g, T a, T b) const {
    return f.first(g, a, b);
  }
  Tensor operator()(const Tensor& g, const Tensor& a, const Tensor& b) const { return f.first(g, a, b); }
};
template <class F>
struct Second {
  static constexpr bool kArithmetic = kIsArithmetic<F>;
  F f;
  template <class T>
  LOCKSTEP_HD T operator()(T g, T a, T b) const {
    return f.second(g, a, b);
  }
  Tensor operator()(const Tensor& g, const Tensor& a, const Tensor& b) const { return f.second(g, a, b); }
};

template <class F>
Tensor unary_gradient(const char* op, const F& f, const Tensor& g, const Tensor& saved) {
  if (records(g, saved)) return f.gradient(widened(g), widened(saved)).to(g.dtype());
  Tensor out = make_like_either(saved, g, g.sizes(), g.dtype());
  map_floating(op, 1, Gradient<F>{f}, out, g, saved);
  return out;
}

template <class F>
Tensor binary_gradient(const char* op, const F& f, const Tensor& g, const Tensor& a, const Tensor& b,
                       const Shape& sizes) {
  if (records(g, a, b)) return sum_to(f(widened(g), widened(a), widened(b)), sizes).to(g.dtype());
  Tensor out = make_like(g);
  map_floating(op, 1, f, out, g, a, b);
  return sum_to(out, sizes);
}

}  // namespace elementwise

/// f(x) of a floating tensor, else DTypeError. f.gradient(g, s) is the gradient of x; s is x, or f(x) if kSaves is
/// kOutput.
template <autograd::SavedAs kSaves = autograd::SavedAs::input, class F>
Tensor unary(const char* op, const char* node, const Tensor& x, const F& f) {
  using namespace elementwise;
  check_floating(op, x);
  Tensor out = make_like(x);
  map_floating(op, 1, f, out, x);
  if (records(x))
    record(node, out, {&x}, [op, f, saved = Saved(kSaves == kOutput ? out : x, kSaves)](const Tensor& g) {
      return Gradients{unary_gradient(op, f, g, saved.get())};
    });
  return out;
}

/// unary(); in autocast regions a 16-bit x becomes float32.
template <autograd::SavedAs kSaves = autograd::SavedAs::input, class F>
Tensor wide_unary(const char* op, const char* node, const Tensor& x, const F& f) {
  if (const auto cast = autocast::wide()) return unary<kSaves>(op, node, cast(x), f);
  return unary<kSaves>(op, node, x, f);
}

/// f(a, b) of floating tensors, broadcast and promoted, else DTypeError. f.first(g, a, b) is the gradient of a,
/// f.second(g, a, b) that of b.
template <class F>
Tensor binary(const char* op, const char* node, const Tensor& a, const Tensor& b, const F& f) {
  using namespace elementwise;
  check_same_device(op, a, b);
  const DType dtype = result_type(a, b);
  if (a.dtype() != b.dtype()) return binary(op, node, a.to(dtype), b.to(dtype), f);
  check_floating(op, a);
  Tensor out = broadcast_result(op, a, b, dtype);
  map_floating(op, 1, f, out, a, b);
  if (records(a, b))
    record(node, out, {&a, &b},
           [op, f, x = Saved(a), y = Saved(b), nx = needs_grad(a), ny = needs_grad(b)](const Tensor& g) {
             const Tensor p = x.get(), q = y.get();
             return Gradients{nx ? binary_gradient(op, First<F>{f}, g, p, q, p.sizes()) : Tensor(),
                              ny ? binary_gradient(op, Second<F>{f}, g, p, q, q.sizes()) : Tensor()};
           });
  return out;
}

}  // namespace lockstep
