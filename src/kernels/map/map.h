// Elementwise operations with one output: out[i] = f(in0[i], in1[i], ...), where inputs broadcast to out's shape.
#pragma once

#include <lockstep/kernels/map_kernel.h>

#include "kernels/launch.h"

namespace lockstep {

template <class T, class>
using Always = T;

/// Returns its argument: the function of kernels that copy or convert.
struct Identity {
  static constexpr bool kArithmetic = true;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x;
  }
};

/// Computes `out` elementwise. The operands are on one device and have the dtypes that `forms` is compiled for. f is a
/// copyable function object, and its arguments have the compute types of the inputs.
template <class F, class... Inputs>
void map(const char* name, double flops_per_element, const ElementwiseForms<F, 1 + sizeof...(Inputs)>& forms,
         const F& f, const Tensor& out, const Inputs&... inputs) {
  const TensorImpl& to = *out.impl();
  if (to.numel == 0) return;
  ElementwiseKernel<F, 1 + sizeof...(Inputs)> kernel{
      {{to.data(), inputs.impl()->data()...}, make_geometry(to.sizes, to, *inputs.impl()...)}, f, &forms};
  Geometry<1 + sizeof...(Inputs)>& geometry = kernel.operands.geometry;
  if (!geometry.dense) lengthen_rows(geometry);
  const std::array<const Tensor*, sizeof...(Inputs)> read = {&inputs...};
  launch(name, flops_per_element * double(to.numel), out, read, kernel);
}
template <class Out, class... In, class F, class... Inputs>
void map(const char* name, double flops_per_element, const F& f, const Tensor& out, const Inputs&... inputs) {
  map(name, flops_per_element, map_forms<F, Out, In...>(), f, out, inputs...);
}

/// A visitor of dtypes. For each dtype it gives the forms of out = f(inputs...), in which all operands have this dtype.
template <class F, class... Inputs>
struct FormsOfOneType {
  template <class T>
  constexpr const ElementwiseForms<F, 1 + sizeof...(Inputs)>& operator()() const {
    return map_forms<F, T, Always<T, Inputs>...>();
  }
};

/// Computes out = f(inputs...), all of one floating dtype.
template <class F, class... Inputs>
void map_floating(const char* name, double flops_per_element, const F& f, const Tensor& out, const Inputs&... inputs) {
  map(name, flops_per_element, visit_floating(name, out.impl()->dtype, FormsOfOneType<F, Inputs...>()), f, out,
      inputs...);
}
/// Like map_floating(), for any dtype except bool.
template <class F, class... Inputs>
void map_numeric(const char* name, double flops_per_element, const F& f, const Tensor& out, const Inputs&... inputs) {
  map(name, flops_per_element, visit_numeric(name, out.impl()->dtype, FormsOfOneType<F, Inputs...>()), f, out,
      inputs...);
}

}  // namespace lockstep
