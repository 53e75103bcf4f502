#include <lockstep/autograd/gradcheck.h>

#include <cmath>

#include <lockstep/autograd/autograd.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"

namespace lockstep::detail {
namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;

Values values_of(const Tensor& x) { return x.detach().cpu().to_vector<double>(); }

Tensor from_values(const Values& values, const Tensor& like) {
  return from_host(values.data(), values.size(), kFloat64, like.sizes(), {.dtype = kFloat64, .device = like.device()});
}

// Leaves with the inputs' values, so that the caller's graph and gradients are not touched.
Tensors fresh_leaves(const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& input : inputs) {
    if (is_floating(input.dtype()) && input.dtype() != kFloat64)
      throw DTypeError(text("[gradcheck] expected float64, got ", input.dtype(), " in input ", leaves.size()));
    Tensor leaf = input.detach();
    leaves.push_back(is_floating(leaf.dtype()) ? leaf.requires_grad_() : leaf);
  }
  return leaves;
}

// The function's outputs with `step` added to element `at` of input `i`.
std::vector<Values> moved(const TensorFunction& function, const Tensors& inputs, std::size_t i, std::size_t at,
                          double step) {
  Tensors changed = fresh_leaves(inputs);
  Values values = values_of(inputs[i]);
  values[at] += step;
  changed[i] = from_values(values, inputs[i]).requires_grad_();
  std::vector<Values> outputs;
  for (const Tensor& output : function(changed))
    outputs.push_back(is_floating(output.dtype()) ? values_of(output.to(kFloat64)) : Values());
  return outputs;
}

// The row of the Jacobian for output[k]: its derivatives with respect to all elements of the inputs, with zeros for
// inputs that backward does not reach.
std::vector<Values> analytic_row(const Tensor& output, std::size_t k, const Tensors& leaves) {
  Values seed(std::size_t(output.numel()));
  seed[k] = 1;
  Tensors wanted;
  for (const Tensor& leaf : leaves)
    if (leaf.requires_grad()) wanted.push_back(leaf);
  const Tensor seeds = from_values(seed, output);
  const Tensors found = gradients(std::span(&output, 1), wanted, std::span(&seeds, 1), {.retain_graph = true});
  std::vector<Values> row;
  std::size_t next = 0;
  for (const Tensor& leaf : leaves) {
    row.emplace_back(std::size_t(leaf.numel()));
    if (leaf.requires_grad())
      if (const Tensor& gradient = found[next++]; gradient.defined()) row.back() = values_of(gradient);
  }
  return row;
}

// The index of an element in a row-major tensor.
Shape place_of(const Shape& sizes, std::size_t at) {
  Shape index = sizes;
  for (int d = sizes.rank(); d-- > 0; at /= std::size_t(sizes[d])) index[d] = std::int64_t(at) % sizes[d];
  return index;
}

}  // namespace

void gradcheck(const TensorFunction& function, const Tensors& inputs, const GradcheckOptions& options) {
  const Tensors leaves = fresh_leaves(inputs);
  const Tensors outputs = function(leaves);

  // analytic[o][k][i][j]: derivative of element k of output o by element j of input i. analytic[o] is empty if output o
  // requires no gradient.
  std::vector<std::vector<std::vector<Values>>> analytic(outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o)
    for (std::size_t k = 0; outputs[o].requires_grad() && k < std::size_t(outputs[o].numel()); ++k)
      analytic[o].push_back(analytic_row(outputs[o], k, leaves));

  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    for (std::size_t j = 0; j < std::size_t(leaves[i].numel()); ++j) {
      const auto above = moved(function, inputs, i, j, options.step),
                 below = moved(function, inputs, i, j, -options.step);
      for (std::size_t o = 0; o < outputs.size(); ++o)
        for (std::size_t k = 0; k < above[o].size(); ++k) {
          const double expected = (above[o][k] - below[o][k]) / (2 * options.step);
          const double got = analytic[o].empty() ? 0 : analytic[o][k][i][j];
          if (std::abs(got - expected) <= options.relative * std::abs(expected) + options.absolute) continue;
          throw AutogradError(text("[gradcheck] expected the derivative ", expected, " of output ", o, " at ",
                                   place_of(outputs[o].sizes(), k), " by input ", i, " at ",
                                   place_of(leaves[i].sizes(), j), ", got ", got));
        }
    }
  }
}

void gradgradcheck(const TensorFunction& function, const Tensors& inputs, const GradcheckOptions& options) {
  // The gradients of the outputs become inputs too, with arbitrary values.
  Tensors extended = fresh_leaves(inputs);
  std::vector<std::size_t> differentiable;
  const Tensors outputs = function(extended);
  double number = 0.7;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].requires_grad()) continue;
    differentiable.push_back(o);
    Values seed(std::size_t(outputs[o].numel()));
    for (double& value : seed) value = number = std::fmod(number * 1.7 + 0.45, 2) - 1;
    extended.push_back(from_values(seed, outputs[o]));
  }
  const auto gradient = [&, count = inputs.size()](const Tensors& all, bool create_graph) {
    const Tensors leaves(all.begin(), all.begin() + std::ptrdiff_t(count));
    const Tensors results = function(leaves);
    Tensors roots, wanted;
    for (const std::size_t o : differentiable) roots.push_back(results[o]);
    for (const Tensor& leaf : leaves)
      if (leaf.requires_grad()) wanted.push_back(leaf);
    Tensors found = gradients(roots, wanted, std::span(all).subspan(count), {.create_graph = create_graph});
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!found[i].defined()) found[i] = zeros_like(wanted[i]);
    return found;
  };
  // Checks the values of the recorded gradient too, because a wrong gradient may have the right derivative.
  const Tensors recorded = gradient(extended, true), plain = gradient(extended, false);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const Values got = values_of(recorded[i]), expected = values_of(plain[i]);
    for (std::size_t j = 0; j < expected.size(); ++j)
      if (!(std::abs(got[j] - expected[j]) <= options.relative * std::abs(expected[j]) + options.absolute))
        throw AutogradError(text("[gradgradcheck] expected gradient ", i, " to be ", expected[j], " at ",
                                 place_of(plain[i].sizes(), j), " as without create_graph, got ", got[j]));
  }
  gradcheck([&](const Tensors& all) { return gradient(all, true); }, extended, options);
}

}  // namespace lockstep::detail
