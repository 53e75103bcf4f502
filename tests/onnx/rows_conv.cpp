// Convolutions.
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/conv.h>
#include <lockstep/ops/layout.h>

#include "onnx/window.h"

namespace lockstep::onnx {
namespace {

Tensors convolved(const Node& node, const Tensors& x) {
  Window w(node, spatial_sizes(x[1]));
  w.follow_rule(node, x[0]);
  const ConvOptions options = {
      .stride = shape_of(w.stride), .dilation = shape_of(w.dilation), .groups = node.integer("group", 1)};
  const auto conv = w.kernel.size() == 1 ? &conv1d : w.kernel.size() == 2 ? &conv2d : &conv3d;
  return {conv(pad(x[0], around(w.before, w.behind)), x[1], input(x, 2), options)};
}

Tensors conv_transposed(const Node& node, const Tensors& x) {
  Window w(node, spatial_sizes(x[1]));
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
