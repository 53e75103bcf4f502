// Convolutions. ONNX gives the padding before and behind each dimension, or a rule for it.
#include <algorithm>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/conv.h>
#include <lockstep/ops/layout.h>

#include "onnx/rows.h"

namespace lockstep::onnx {
namespace {

using Numbers = std::vector<std::int64_t>;

// What both kinds of nodes say about each spatial dimension.
struct Window {
  Numbers kernel, stride, dilation, before, behind;

  Window(const Node& node, const Tensors& x) {
    const auto dims = std::size_t(x[0].dim() - 2);
    for (std::size_t d = 0; d < dims; ++d) kernel.push_back(x[1].size(std::int64_t(d) + 2));
    stride = node.integers("strides", Numbers(dims, 1));
    dilation = node.integers("dilations", Numbers(dims, 1));
    const Numbers pads = node.integers("pads", Numbers(2 * dims, 0));
    before.assign(pads.begin(), pads.begin() + std::ptrdiff_t(dims));
    behind.assign(pads.begin() + std::ptrdiff_t(dims), pads.end());
  }
  std::int64_t reach(std::size_t d) const { return dilation[d] * (kernel[d] - 1) + 1; }
  // Upper: one more behind. What is less than nothing is behind.
  void divide(std::size_t d, std::int64_t total, bool upper) {
    const std::int64_t least = std::max<std::int64_t>(total, 0);
    before[d] = upper ? least / 2 : least - least / 2;
    behind[d] = total - before[d];
  }
};

// As pad() takes it, from the last dimension on.
Numbers around(const Numbers& before, const Numbers& behind) {
  Numbers result;
  for (std::size_t d = before.size(); d-- > 0;) result.insert(result.end(), {before[d], behind[d]});
  return result;
}

Tensors convolved(const Node& node, const Tensors& x) {
  Window w(node, x);
  const std::string rule = node.text("auto_pad", "NOTSET");
  if (rule.starts_with("SAME"))
    for (std::size_t d = 0; d < w.kernel.size(); ++d) {
      const std::int64_t size = x[0].size(std::int64_t(d) + 2), out = (size + w.stride[d] - 1) / w.stride[d];
      w.divide(d, std::max<std::int64_t>(0, (out - 1) * w.stride[d] + w.reach(d) - size), rule == "SAME_UPPER");
    }
  const ConvOptions options = {
      .stride = shape_of(w.stride), .dilation = shape_of(w.dilation), .groups = node.integer("group", 1)};
  const auto conv = w.kernel.size() == 1 ? &conv1d : w.kernel.size() == 2 ? &conv2d : &conv3d;
  return {conv(pad(x[0], around(w.before, w.behind)), x[1], input(x, 2), options)};
}

Tensors conv_transposed(const Node& node, const Tensors& x) {
  Window w(node, x);
  const std::size_t dims = w.kernel.size();
  const std::string rule = node.text("auto_pad", "NOTSET");
  const Numbers added = node.integers("output_padding", Numbers(dims, 0));
  Numbers wanted = node.integers("output_shape");
  if (wanted.empty() && rule.starts_with("SAME"))
    for (std::size_t d = 0; d < dims; ++d) wanted.push_back(x[0].size(std::int64_t(d) + 2) * w.stride[d]);
  for (std::size_t d = 0; d < dims; ++d) {
    const std::int64_t whole = (x[0].size(std::int64_t(d) + 2) - 1) * w.stride[d] + w.reach(d);
    if (!wanted.empty()) w.divide(d, whole + added[d] - wanted[d], rule == "SAME_UPPER");
    w.before[d] = -w.before[d];
    w.behind[d] = added[d] - w.behind[d];
  }
  const ConvTransposeOptions options = {
      .stride = shape_of(w.stride), .groups = node.integer("group", 1), .dilation = shape_of(w.dilation)};
  const auto transpose = dims == 1 ? &conv_transpose1d : dims == 2 ? &conv_transpose2d : &conv_transpose3d;
  const Tensor y = pad(transpose(x[0], x[1], {}, options), around(w.before, w.behind));
  if (!input(x, 2).defined()) return {y};
  Shape sizes = Shape::filled(y.dim(), 1);
  sizes[1] = -1;
  return {y + x[2].view(sizes)};
}

}  // namespace

void add_conv_rows(Table& table) {
  table.merge(Table{
      {"Conv", convolved},
      {"ConvTranspose", conv_transposed},
  });
}

}  // namespace lockstep::onnx
