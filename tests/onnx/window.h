// The window options of nodes for each spatial dimension: ONNX gives the padding before and behind, or a rule for it.
#pragma once

#include <algorithm>

#include "onnx/rows.h"

namespace lockstep::onnx {

using Numbers = std::vector<std::int64_t>;

struct Window {
  Numbers kernel, stride, dilation, before, behind;

  Window(const Node& node, const Numbers& size) : kernel(size) {
    const std::size_t dims = kernel.size();
    stride = node.integers("strides", Numbers(dims, 1));
    dilation = node.integers("dilations", Numbers(dims, 1));
    const Numbers pads = node.integers("pads", Numbers(2 * dims, 0));
    before.assign(pads.begin(), pads.begin() + std::ptrdiff_t(dims));
    behind.assign(pads.begin() + std::ptrdiff_t(dims), pads.end());
  }
  std::int64_t reach(std::size_t d) const { return dilation[d] * (kernel[d] - 1) + 1; }
  // Splits the padding. Upper: an odd total has one more behind. A negative total is all behind.
  void divide(std::size_t d, std::int64_t total, bool upper) {
    const std::int64_t least = std::max<std::int64_t>(total, 0);
    before[d] = upper ? least / 2 : least - least / 2;
    behind[d] = total - before[d];
  }
  // Computes the padding for auto_pad, if the node names a rule: ceil(size / stride) results.
  void follow_rule(const Node& node, const Tensor& x) {
    const std::string rule = node.text("auto_pad", "NOTSET");
    if (!rule.starts_with("SAME")) return;
    for (std::size_t d = 0; d < kernel.size(); ++d) {
      const std::int64_t size = x.size(std::int64_t(d) + 2), out = (size + stride[d] - 1) / stride[d];
      divide(d, std::max<std::int64_t>(0, (out - 1) * stride[d] + reach(d) - size), rule == "SAME_UPPER");
    }
  }
};

// The sizes of x after batch and channels.
inline Numbers spatial_sizes(const Tensor& x) {
  Numbers sizes;
  for (int d = 2; d < x.dim(); ++d) sizes.push_back(x.size(d));
  return sizes;
}

// In the form of pad(): from the last dimension on.
inline Numbers around(const Numbers& before, const Numbers& behind) {
  Numbers result;
  for (std::size_t d = before.size(); d-- > 0;) result.insert(result.end(), {before[d], behind[d]});
  return result;
}

}  // namespace lockstep::onnx
