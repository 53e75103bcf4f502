#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include <optional>

#include "onnx/rows.h"

namespace lockstep::onnx {
namespace {

Row unary(Tensor (*f)(const Tensor&)) {
  return [f](const Node&, const Tensors& x) { return Tensors{f(x[0])}; };
}
Row binary(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const Node&, const Tensors& x) { return Tensors{f(x[0], x[1])}; };
}
// Folds f over any number of inputs, from the left.
Row folded(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const Node&, const Tensors& x) {
    Tensor result = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) result = f(result, x[i]);
    return Tensors{result};
  };
}

Tensor plus(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor minus(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor times(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor equal(const Tensor& a, const Tensor& b) { return eq(a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return lt(a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return le(a, b); }

Tensors divided(const Node&, const Tensors& x) {
  if (!is_floating(x[0].dtype())) throw NotApplicable("division of integers (ours is true division)");
  return {div(x[0], x[1])};
}

Tensors power(const Node&, const Tensors& x) {
  if (!is_floating(x[0].dtype())) throw NotApplicable("powers of integers with tensors as exponents");
  return {pow(x[0], x[1].to(x[0].dtype()))};
}

Tensors mean_of(const Node&, const Tensors& x) {
  Tensor sum = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) sum = sum + x[i];
  return {sum / double(x.size())};
}

std::optional<double> bound(const Node& node, const Tensors& x, std::size_t place, const char* name) {
  if (const Tensor given = input(x, place); given.defined()) return given.item<double>();
  return node.has(name) ? std::optional(node.number(name, 0)) : std::nullopt;
}

Tensors clipped(const Node& node, const Tensors& x) {
  const ClampOptions options = {.min = bound(node, x, 1, "min"), .max = bound(node, x, 2, "max")};
  return {options.min || options.max ? clamp(x[0], options) : x[0]};
}

Tensors is_infinite(const Node& node, const Tensors& x) {
  Tensor found = isinf(x[0]);
  if (!node.integer("detect_positive", 1)) found = logical_and(found, lt(x[0], 0.0));
  if (!node.integer("detect_negative", 1)) found = logical_and(found, gt(x[0], 0.0));
  return {found};
}

}  // namespace

void add_elementwise_rows(Table& table) {
  table.merge(Table{
      {"Abs", unary(abs)},
      {"Add", binary(plus)},
      {"And", binary(logical_and)},
      {"Cast", [](const Node& n, const Tensors& x) { return Tensors{x[0].to(dtype_of(n.integer("to", 0)))}; }},
      {"CastLike", [](const Node&, const Tensors& x) { return Tensors{x[0].to(x[1].dtype())}; }},
      {"Ceil", unary(ceil)},
      {"Clip", clipped},
      {"Cos", unary(cos)},
      {"Div", divided},
      {"Elu", [](const Node& n, const Tensors& x) { return Tensors{elu(x[0], n.number("alpha", 1))}; }},
      {"Equal", binary(equal)},
      {"Erf", unary(erf)},
      {"Exp", unary(exp)},
      {"Floor", unary(floor)},
      {"Greater", binary(gt)},
      {"GreaterOrEqual", binary(ge)},
      {"HardSwish", unary(hardswish)},
      {"Identity", [](const Node&, const Tensors& x) { return x; }},
      {"IsInf", is_infinite},
      {"IsNaN", unary(isnan)},
      {"LeakyRelu", [](const Node& n, const Tensors& x) { return Tensors{leaky_relu(x[0], n.number("alpha", 0.01))}; }},
      {"Less", binary(less)},
      {"LessOrEqual", binary(less_equal)},
      {"Log", unary(log)},
      {"Max", folded(maximum)},
      {"Mean", mean_of},
      {"Min", folded(minimum)},
      {"Mul", binary(times)},
      {"Neg", unary(neg)},
      {"Not", unary(logical_not)},
      {"Or", binary(logical_or)},
      {"Pow", power},
      {"Reciprocal", unary(reciprocal)},
      {"Relu", unary(relu)},
      {"Round", unary(round)},
      {"Sigmoid", unary(sigmoid)},
      {"Sign", unary(sign)},
      {"Sin", unary(sin)},
      {"Softplus", [](const Node&, const Tensors& x) { return Tensors{softplus(x[0])}; }},
      {"Sqrt", unary(sqrt)},
      {"Sub", binary(minus)},
      {"Sum", folded(plus)},
      {"Tanh", unary(tanh)},
      {"Where", [](const Node&, const Tensors& x) { return Tensors{where(x[0], x[1], x[2])}; }},
      {"Xor", binary(logical_xor)},
  });
}

}  // namespace lockstep::onnx
