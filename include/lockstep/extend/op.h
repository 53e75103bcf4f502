// Custom differentiable operations. An elementwise one is a function object; its arithmetic is written once:
//
//   struct Swish {
//     template <class T>
//     LOCKSTEP_HD T operator()(T x, T beta) const { return x * sigmoid(beta * x); }
//     template <class T>
//     LOCKSTEP_HD std::array<T, 2> gradient(const T& g, const T& x, const T& beta) const {
//       const T s = sigmoid(beta * x), slope = g * x * s * (1 - s);
//       return {g * s + beta * slope, x * slope};
//     }
//   };
//   Tensor swish(const Tensor& x, const Tensor& beta) { return extend::elementwise("swish", Swish(), x, beta); }
//
// `gradient` returns the gradient of each input from g, the gradient of the result. It is compiled twice: with
// numbers as T, for the kernel of an ordinary backward; and with T = Tensor, for a backward that is itself recorded
// (create_graph), so that gradients of any order exist. Write integer constants as they are, other constants as
// ConstantOf<T>(0.5), conditions as where(x > 0, g, 0).
//
// Other operations combine the kernels of extend/kernels.h with custom_gradient() of autograd/autograd.h, whose
// function holds its saved tensors as autograd::Saved. docs/extending.md shows one.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/saved.h>
#include <lockstep/extend/kernels.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/numbers.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>

namespace lockstep::extend {

namespace detail {
// The function object of a kernel that computes the gradients d0, d1, ... of all inputs: (d0&, d1&, ..., g, x0, x1,
// ...).
template <class F, std::size_t kInputs>
struct AllGradients {
  F f;

  template <class... T>
  LOCKSTEP_HD void operator()(T&... all) const {
    write(std::tie(all...), std::make_index_sequence<kInputs>());
  }

 private:
  template <class All, std::size_t... I>
  LOCKSTEP_HD void write(const All& all, std::index_sequence<I...>) const {
    using T = std::remove_cvref_t<std::tuple_element_t<0, All>>;
    const std::array<T, kInputs> gradients = f.gradient(std::get<kInputs>(all), std::get<kInputs + 1 + I>(all)...);
    ((std::get<I>(all) = gradients[I]), ...);
  }
};

// The function object of a kernel that computes the gradient of input I: (g, x0, x1, ...).
template <class F, std::size_t I>
struct OneGradient {
  F f;

  template <class T, class... Inputs>
  LOCKSTEP_HD T operator()(T g, Inputs... inputs) const {
    return f.gradient(g, inputs...)[I];
  }
};

template <class F, std::size_t... I>
std::vector<Tensor> gradients(const char* name, const F& f, const Tensor& g, const std::array<Tensor, sizeof...(I)>& x,
                              const std::array<bool, sizeof...(I)>& wanted, std::index_sequence<I...>) {
  constexpr std::size_t kInputs = sizeof...(I);
  std::array<Tensor, kInputs> all;
  if (grad_enabled() && (g.requires_grad() || (x[I].requires_grad() || ...))) {
    const DType dtype = size_of(g.dtype()) < 4 ? kFloat32 : g.dtype();
    all = f.gradient(g.to(dtype), x[I].to(dtype)...);
  } else if ((wanted[I] && ...)) {
    all = map_several<kInputs>(name, AllGradients<F, kInputs>{f}, g, x[I]...);
  } else {
    ((wanted[I] ? void(all[I] = map(name, OneGradient<F, I>{f}, g, x[I]...)) : void()), ...);
  }
  return {(wanted[I] ? sum_to(all[I], x[I].sizes()).to(g.dtype()) : Tensor())...};
}

// The backward of an elementwise operation. Its functions are virtual, because nvcc would otherwise compile their calls
// with tensors as device code.
class ElementwiseBackward {
 public:
  virtual ~ElementwiseBackward() = default;
  virtual std::vector<Tensor> operator()(const Tensor& g) const = 0;
};

template <class F, std::size_t... I>
class ElementwiseBackwardOf final : public ElementwiseBackward {
 public:
  ElementwiseBackwardOf(const char* name, const F& f, const std::array<Tensor, sizeof...(I)>& x)
      : name_(name), f_(f), wanted_{x[I].requires_grad()...}, saved_{autograd::Saved(x[I])...} {}

  std::vector<Tensor> operator()(const Tensor& g) const override {
    return gradients(name_, f_, g, std::array<Tensor, sizeof...(I)>{saved_[I].get()...}, wanted_,
                     std::index_sequence<I...>());
  }

 private:
  const char* name_;
  F f_;
  std::array<bool, sizeof...(I)> wanted_;
  std::array<autograd::Saved, sizeof...(I)> saved_;
};

template <class F, std::size_t... I>
Tensor elementwise(const char* name, const F& f, std::array<Tensor, sizeof...(I)> x, std::index_sequence<I...>) {
  promote_all(name, x);
  const Tensor result = map(name, f, x[I]...);
  if (!grad_enabled() || !(x[I].requires_grad() || ...)) return result;
  const std::shared_ptr<const ElementwiseBackward> backward =
      std::make_shared<ElementwiseBackwardOf<F, I...>>(name, f, x);
  return custom_gradient(name, result, x, [backward](const Tensor& g) { return (*backward)(g); });
}
}  // namespace detail

/// f(inputs...) of floating tensors, broadcast and promoted to one dtype. Differentiable. Throws as map() does
/// (extend/kernels.h), but accepts different dtypes. `name` also names the node of the graph.
template <class F, class... Inputs>
Tensor elementwise(const char* name, const F& f, const Inputs&... inputs) {
  return detail::elementwise(name, f, std::array<Tensor, sizeof...(Inputs)>{inputs...},
                             std::index_sequence_for<Inputs...>());
}

}  // namespace lockstep::extend
