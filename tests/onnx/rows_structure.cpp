#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include <algorithm>
#include <limits>

#include "onnx/rows.h"

namespace lockstep::onnx {
namespace {

std::int64_t counted_from_start(std::int64_t dim, int rank) { return dim < 0 ? dim + rank : dim; }

// Reduces with `f` over the axes of an input or an attribute. Without axes it reduces over all, unless the case says
// that it is then a no-op.
Row reduction(Tensor (*f)(const Tensor&, const Shape&, bool)) {
  return [f](const Node& node, const Tensors& x) {
    std::vector<std::int64_t> axes = whole_numbers(node, x, 1, "axes");
    if (axes.empty() && node.integer("noop_with_empty_axes", 0)) return Tensors{x[0]};
    if (axes.empty())
      for (int d = 0; d < x[0].dim(); ++d) axes.push_back(d);
    return Tensors{f(x[0], shape_of(axes), node.integer("keepdims", 1) != 0)};
  };
}

// Of bool and of no elements, ONNX has an answer; amax() and amin() refuse both.
Row extremum(Tensor (*f)(const Tensor&, const Shape&, bool)) {
  return [reduce = reduction(f)](const Node& node, const Tensors& x) {
    if (x[0].dtype() == kBool || x[0].numel() == 0) throw NotApplicable("the greatest of bools, or of nothing");
    return reduce(node, x);
  };
}

Row place_of(Tensor (*f)(const Tensor&, std::int64_t, bool)) {
  return [f](const Node& node, const Tensors& x) {
    const std::int64_t axis = node.integer("axis", 0);
    if (!node.integer("select_last_index", 0)) return Tensors{f(x[0], axis, node.integer("keepdims", 1) != 0)};
    throw NotApplicable("the last of equal elements (ours is the first)");
  };
}

// 1 at the first maximum along the axis, else 0.
Tensors hardmax(const Node& node, const Tensors& x) {
  const std::int64_t axis = counted_from_start(node.integer("axis", -1), x[0].dim());
  const Tensor marks = one_hot(argmax(x[0], axis), x[0].size(axis)).to(x[0].dtype());
  Shape order;
  for (int d = 0; d < x[0].dim(); ++d) order.push_back(d < axis ? d : d == axis ? x[0].dim() - 1 : d - 1);
  return {marks.permute(order)};
}

Tensors one_hot_of(const Node& node, const Tensors& x) {
  const auto depth = x[1].cpu().to(kInt64).to_vector<std::int64_t>().at(0);
  const Tensor index = x[0].to(kInt64);
  const Tensor wrapped =
      where(lt(index, 0.0), index + full({}, double(depth), {.dtype = kInt64, .device = x[0].device()}), index);
  const Tensor marks = one_hot(wrapped, depth);
  const std::int64_t rank = marks.dim(), axis = counted_from_start(node.integer("axis", -1), int(rank));
  Shape order;
  for (std::int64_t d = 0; d < rank; ++d) order.push_back(d < axis ? d : d == axis ? rank - 1 : d - 1);
  return {where(ne(marks, 0.0), x[2][1], x[2][0]).permute(order)};
}

Tensors gemm(const Node& node, const Tensors& x) {
  const Tensor a = node.integer("transA", 0) ? x[0].t() : x[0], b = node.integer("transB", 0) ? x[1].t() : x[1];
  const Tensor addend = input(x, 2);
  const double alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  if (!addend.defined()) return {mm(a, b) * alpha};
  return {addmm(addend, a, b, {.beta = beta, .alpha = alpha})};
}

Tensors sliced(const Node& node, const Tensors& x) {
  const auto starts = whole_numbers(node, x, 1, "starts"), ends = whole_numbers(node, x, 2, "ends");
  auto axes = whole_numbers(node, x, 3, "axes"), steps = whole_numbers(node, x, 4, "steps");
  Tensor result = x[0];
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t axis = counted_from_start(axes.empty() ? std::int64_t(i) : axes[i], result.dim());
    const std::int64_t step = steps.empty() ? 1 : steps[i], size = result.size(axis);
    if (step > 0) {
      result = result.slice(axis, starts[i], ends[i], step);
    } else {  // slices the reversed tensor
      const auto reversed = [&](std::int64_t place) {
        return place < -size ? size
                             : size - 1 - std::clamp(counted_from_start(place, int(size)), std::int64_t(-1), size - 1);
      };
      result = flip(result, {axis}).slice(axis, reversed(starts[i]), reversed(ends[i]), -step);
    }
  }
  return {result.contiguous()};
}

Tensors split_up(const Node& node, const Tensors& x) {
  const std::int64_t axis = node.integer("axis", 0);
  std::vector<std::int64_t> sizes = whole_numbers(node, x, 1, "split");
  if (sizes.empty()) {
    const auto parts = std::int64_t(node.outputs.size());
    const std::int64_t all = x[0].size(axis), each = (all + parts - 1) / parts;
    sizes.assign(std::size_t(parts), each);
    sizes.back() = all - (parts - 1) * each;
  }
  return split(x[0], sizes, axis);
}

Tensors reshaped(const Node& node, const Tensors& x) {
  std::vector<std::int64_t> sizes = whole_numbers(node, x, 1, "shape");
  if (!node.integer("allowzero", 0))
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0) sizes[i] = x[0].size(std::int64_t(i));
  return {x[0].reshape(shape_of(sizes))};
}

Tensors flattened(const Node& node, const Tensors& x) {
  const std::int64_t axis = counted_from_start(node.integer("axis", 1), x[0].dim());
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d < axis; ++d) rows *= x[0].size(d);
  return {x[0].reshape({rows, x[0].numel() / rows})};
}

Tensors squeezed(const Node& node, const Tensors& x) {
  std::vector<std::int64_t> axes = whole_numbers(node, x, 1, "axes");
  for (std::int64_t& axis : axes) axis = counted_from_start(axis, x[0].dim());
  Shape kept;
  for (std::int64_t d = 0; d < x[0].dim(); ++d)
    if (axes.empty() ? x[0].size(d) != 1 : std::find(axes.begin(), axes.end(), d) == axes.end())
      kept.push_back(x[0].size(d));
  return {x[0].view(kept)};
}

Tensors unsqueezed(const Node& node, const Tensors& x) {
  std::vector<std::int64_t> axes = whole_numbers(node, x, 1, "axes");
  for (std::int64_t& axis : axes) axis = counted_from_start(axis, x[0].dim() + int(axes.size()));
  std::sort(axes.begin(), axes.end());
  Tensor result = x[0];
  for (const std::int64_t axis : axes) result = result.unsqueeze(axis);
  return {result};
}

Tensors transposed(const Node& node, const Tensors& x) {
  std::vector<std::int64_t> order = node.integers("perm");
  if (order.empty())
    for (std::int64_t d = x[0].dim(); d-- > 0;) order.push_back(d);
  return {x[0].permute(shape_of(order)).contiguous()};
}

Tensors expanded(const Node&, const Tensors& x) {
  const auto sizes = x[1].cpu().to_vector<std::int64_t>();
  return {x[0] * ones(shape_of(sizes), {.dtype = x[0].dtype(), .device = x[0].device()})};
}

// Makes negative indices positive.
Tensor wrapped(const Tensor& index, std::int64_t size) {
  const Tensor wide = index.to(kInt64);
  return where(lt(wide, 0.0), wide + full({}, double(size), {.dtype = kInt64, .device = wide.device()}), wide);
}

Tensors gathered(const Node& node, const Tensors& x) {
  const std::int64_t axis = counted_from_start(node.integer("axis", 0), x[0].dim());
  const Tensor rows = index_select(x[0], axis, wrapped(x[1].reshape({-1}), x[0].size(axis)));
  Shape sizes;
  for (std::int64_t d = 0; d < x[0].dim(); ++d) {
    if (d != axis) sizes.push_back(x[0].size(d));
    if (d == axis)
      for (const std::int64_t size : x[1].sizes()) sizes.push_back(size);
  }
  return {rows.reshape(sizes)};
}

Tensors gathered_elements(const Node& node, const Tensors& x) {
  const std::int64_t axis = counted_from_start(node.integer("axis", 0), x[0].dim());
  return {gather_elements(x[0], axis, wrapped(x[1], x[0].size(axis)))};
}

Tensors summed_up(const Node& node, const Tensors& x) {
  if (node.integer("exclusive", 0)) throw NotApplicable("cumsum that leaves out the element itself");
  const auto axis = x[1].cpu().to(kInt64).to_vector<std::int64_t>().at(0);
  if (!node.integer("reverse", 0)) return {cumsum(x[0], axis)};
  return {flip(cumsum(flip(x[0], {axis}), axis), {axis})};
}

Tensors greatest(const Node& node, const Tensors& x) {
  const auto count = whole_numbers(node, x, 1, "k").at(0);
  const auto [values, indices] = topk(x[0], count, node.integer("axis", -1), node.integer("largest", 1) != 0);
  return {values, indices};
}

Tensors triangle(const Node& node, const Tensors& x) {
  const auto diagonals = whole_numbers(node, x, 1, "k");
  const std::int64_t diagonal = diagonals.empty() ? 0 : diagonals[0];
  return {node.integer("upper", 1) ? triu(x[0], diagonal) : tril(x[0], diagonal)};
}

Tensors compressed(const Node& node, const Tensors& x) {
  const Tensor from = node.has("axis") ? x[0] : x[0].reshape({-1});
  const std::int64_t axis = node.integer("axis", 0);
  return {index_select(from, axis, nonzero(x[1]).reshape({-1}))};
}

Tensors range(const Node&, const Tensors& x) {
  return {arange(x[0].item<double>(), x[1].item<double>(), x[2].item<double>(),
                 {.dtype = x[0].dtype(), .device = x[0].device()})};
}

Tensors sizes_of(const Node& node, const Tensors& x) {
  const Shape& sizes = x[0].sizes();
  std::vector<std::int64_t> values(sizes.begin(), sizes.end());
  const auto rank = std::int64_t(values.size());
  const auto place = [&](std::int64_t at) { return std::clamp(at < 0 ? at + rank : at, std::int64_t(0), rank); };
  const std::int64_t first = place(node.integer("start", 0)), last = place(node.integer("end", rank));
  if (last <= first) return {empty({0}, {.dtype = kInt64})};
  return {tensor(std::vector(values.begin() + first, values.begin() + last))};
}

Tensors constant(const Node& node, const Tensors&) {
  if (node.has("value")) return {node.attributes.at("value").tensor};
  if (node.has("value_int")) return {tensor(node.integer("value_int", 0))};
  if (node.has("value_ints")) return {tensor(node.integers("value_ints"))};
  if (node.has("value_float")) return {tensor(node.number("value_float", 0))};
  if (node.has("value_floats")) return {tensor(node.attributes.at("value_floats").numbers)};
  throw NotApplicable("a constant that is no tensor");
}

Tensors constant_of_shape(const Node& node, const Tensors& x) {
  const Tensor value = node.has("value") ? node.attributes.at("value").tensor : tensor(0.0);
  return {full(shape_of(x[0].cpu().to_vector<std::int64_t>()), value.item<double>(),
               {.dtype = value.dtype(), .device = x[0].device()})};
}

Tensor sum_over(const Tensor& x, const Shape& dims, bool keep) { return sum(x, dims, keep); }
Tensor mean_over(const Tensor& x, const Shape& dims, bool keep) { return mean(x, dims, keep); }
Tensor prod_over(const Tensor& x, const Shape& dims, bool keep) { return prod(x, dims, keep); }
Tensor norm_1(const Tensor& x, const Shape& dims, bool keep) { return norm(x, 1, dims, keep); }
Tensor norm_2(const Tensor& x, const Shape& dims, bool keep) { return norm(x, 2, dims, keep); }
Tensor log_sum(const Tensor& x, const Shape& dims, bool keep) { return log(sum(x, dims, keep)); }
Tensor sum_square(const Tensor& x, const Shape& dims, bool keep) { return sum(square(x), dims, keep); }

}  // namespace

void add_structure_rows(Table& table) {
  table.merge(Table{
      {"ArgMax", place_of(argmax)},
      {"ArgMin", place_of(argmin)},
      {"Compress", compressed},
      {"Concat", [](const Node& n, const Tensors& x) { return Tensors{cat(x, n.integer("axis", 0))}; }},
      {"Constant", constant},
      {"ConstantOfShape", constant_of_shape},
      {"CumSum", summed_up},
      {"Expand", expanded},
      {"Flatten", flattened},
      {"Gather", gathered},
      {"GatherElements", gathered_elements},
      {"Gemm", gemm},
      {"Hardmax", hardmax},
      {"LogSoftmax", [](const Node& n, const Tensors& x) { return Tensors{log_softmax(x[0], n.integer("axis", -1))}; }},
      {"MatMul", [](const Node&, const Tensors& x) { return Tensors{matmul(x[0], x[1])}; }},
      {"NonZero", [](const Node&, const Tensors& x) { return Tensors{nonzero(x[0]).t().contiguous()}; }},
      {"OneHot", one_hot_of},
      {"Range", range},
      {"ReduceL1", reduction(norm_1)},
      {"ReduceL2", reduction(norm_2)},
      {"ReduceLogSum", reduction(log_sum)},
      {"ReduceLogSumExp", reduction(logsumexp)},
      {"ReduceMax", extremum(amax)},
      {"ReduceMean", reduction(mean_over)},
      {"ReduceMin", extremum(amin)},
      {"ReduceProd", reduction(prod_over)},
      {"ReduceSum", reduction(sum_over)},
      {"ReduceSumSquare", reduction(sum_square)},
      {"Reshape", reshaped},
      {"Shape", sizes_of},
      {"Size", [](const Node&, const Tensors& x) { return Tensors{tensor(x[0].numel())}; }},
      {"Slice", sliced},
      {"Softmax", [](const Node& n, const Tensors& x) { return Tensors{softmax(x[0], n.integer("axis", -1))}; }},
      {"Split", split_up},
      {"Squeeze", squeezed},
      {"Tile", [](const Node&,
                  const Tensors& x) { return Tensors{repeat(x[0], shape_of(x[1].cpu().to_vector<std::int64_t>()))}; }},
      {"TopK", greatest},
      {"Transpose", transposed},
      {"Trilu", triangle},
      {"Unsqueeze", unsqueezed},
  });
}

}  // namespace lockstep::onnx
