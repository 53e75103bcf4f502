// Pooling, interpolation, padding, and other operations on images.
#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/fold.h>
#include <lockstep/ops/interpolate.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/pooling.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/shuffle.h>
#include <lockstep/tensor/creation.h>

#include "onnx/window.h"

namespace lockstep::onnx {
namespace {

// Lockstep's pooling pads equally before and behind, by at most half of a window.
bool pads_evenly(const Window& w) {
  bool even = w.before == w.behind;
  for (std::size_t d = 0; d < w.kernel.size(); ++d) even &= w.before[d] <= w.kernel[d] / 2;
  return even;
}

bool is_padded(const Window& w) { return w.before != Numbers(w.kernel.size(), 0) || w.behind != w.before; }

Tensors pooled_means(const Node& node, const Tensors& x) {
  Window w(node, node.integers("kernel_shape"));
  w.follow_rule(node, x[0]);
  if (w.dilation != Numbers(w.kernel.size(), 1)) throw NotApplicable("means over windows with gaps");
  const auto pool = w.kernel.size() == 1 ? avg_pool1d : w.kernel.size() == 2 ? avg_pool2d : avg_pool3d;
  const bool with_padding = node.integer("count_include_pad", 0) != 0;
  AvgPoolOptions options = {
      .stride = shape_of(w.stride), .ceil_mode = node.integer("ceil_mode", 0) != 0, .count_include_pad = with_padding};
  const Shape kernel = shape_of(w.kernel);
  if (pads_evenly(w)) {
    options.padding = shape_of(w.before);
    return {pool(x[0], kernel, options)};
  }
  if (options.ceil_mode) throw NotApplicable("uneven padding with windows that reach over the end");
  const Numbers padding = around(w.before, w.behind);
  const Tensor means = pool(pad(x[0], padding), kernel, options);
  if (with_padding) return {means};
  return {means / pool(pad(ones_like(x[0]), padding), kernel, options)};
}

// ONNX's indices count through the elements of all images.
Tensor first_places(const Tensor& x, std::int64_t plane) {
  const std::int64_t planes = x.size(0) * x.size(1);
  Shape sizes = Shape::filled(x.dim(), 1);
  sizes[0] = x.size(0);
  sizes[1] = x.size(1);
  return (arange(double(planes), {.device = x.device()}) * double(plane)).view(sizes);
}

Tensors pooled_greatest(const Node& node, const Tensors& x) {
  if (node.integer("storage_order", 0)) throw NotApplicable("places counted column by column");
  Window w(node, node.integers("kernel_shape"));
  w.follow_rule(node, x[0]);
  const auto pool = w.kernel.size() == 1   ? max_pool1d_with_indices
                    : w.kernel.size() == 2 ? max_pool2d_with_indices
                                           : max_pool3d_with_indices;
  MaxPoolOptions options = {
      .stride = shape_of(w.stride), .dilation = shape_of(w.dilation), .ceil_mode = node.integer("ceil_mode", 0) != 0};
  const bool is_even = pads_evenly(w);
  if (is_even) options.padding = shape_of(w.before);
  if (!is_even && (options.ceil_mode || node.outputs.size() > 1))
    throw NotApplicable("places, or windows that reach over the end, with uneven padding");
  const Tensor from = is_even ? x[0] : pad(x[0], around(w.before, w.behind), -std::numeric_limits<double>::infinity());
  const auto [greatest, places] = pool(from, shape_of(w.kernel), options);
  return {greatest, places + first_places(x[0], x[0].numel() / (x[0].size(0) * x[0].size(1)))};
}

// output_shape only adds zeros at the end: the indices refer to the smaller images.
Tensors unpooled_greatest(const Node& node, const Tensors& x) {
  const Window w(node, node.integers("kernel_shape"));
  if (is_padded(w)) throw NotApplicable("unpooling of padded images");
  const auto unpool = w.kernel.size() == 1 ? max_unpool1d : w.kernel.size() == 2 ? max_unpool2d : max_unpool3d;
  const Shape kernel = shape_of(w.kernel);
  const MaxUnpoolOptions options = {.stride = shape_of(w.stride)};
  std::int64_t plane = 1;
  for (std::size_t d = 0; d < w.kernel.size(); ++d)
    plane *= (x[0].size(std::int64_t(d) + 2) - 1) * w.stride[d] + w.kernel[d];
  const Tensor images = unpool(x[0], x[1] - first_places(x[0], plane), kernel, options);
  if (!input(x, 2).defined()) return {images};
  const auto sizes = whole_numbers(node, x, 2, "output_shape");
  Numbers before(w.kernel.size(), 0), behind;
  for (std::size_t d = 0; d < w.kernel.size(); ++d) behind.push_back(sizes[d + 2] - images.size(std::int64_t(d) + 2));
  return {pad(images, around(before, behind))};
}

Row over_images(Tensor (*f)(const Tensor&, const Shape&, bool)) {
  return [f](const Node&, const Tensors& x) {
    Shape dims;
    for (int d = 2; d < x[0].dim(); ++d) dims.push_back(d);
    return Tensors{f(x[0], dims, true)};
  };
}

Tensors padded_around(const Node& node, const Tensors& x) {
  const auto pads = whole_numbers(node, x, 1, "pads");
  const std::size_t rank = pads.size() / 2;
  const std::string mode = node.text("mode", "constant");
  if (input(x, 3).defined()) throw NotApplicable("padding of named axes");
  PaddingOptions options = {.mode = mode == "constant"  ? PadMode::constant
                                    : mode == "reflect" ? PadMode::reflect
                                    : mode == "edge"    ? PadMode::replicate
                                                        : PadMode::circular};
  if (input(x, 2).defined()) options.value = x[2].item<double>();
  const auto middle = pads.begin() + std::ptrdiff_t(rank);
  return {pad(x[0], around(Numbers(pads.begin(), middle), Numbers(middle, pads.end())), options)};
}

// If two elements are equally near, Lockstep's nearest_exact takes the higher one, ONNX's default the lower one.
void check_no_ties(const Shape& from, const Numbers& sizes, const std::vector<double>& factors) {
  for (std::size_t d = 0; d < sizes.size(); ++d)
    for (std::int64_t o = 0; o < sizes[d]; ++o) {
      const double factor = factors.empty() ? double(sizes[d]) / double(from[int(d) + 2]) : factors[d];
      const double at = (double(o) + 0.5) / factor;
      if (sizes[d] != from[int(d) + 2] && std::abs(at - std::round(at)) < 1e-6)
        throw NotApplicable("the lower of equally near elements (ours is the higher)");
    }
}

Interpolation interpolation_named(const std::string& mode, const std::string& places, int dims) {
  if (mode == "nearest") return places == "asymmetric" ? Interpolation::nearest : Interpolation::nearest_exact;
  if (mode == "cubic") return Interpolation::bicubic;
  return dims == 1 ? Interpolation::linear : dims == 2 ? Interpolation::bilinear : Interpolation::trilinear;
}

Tensors resized(const Node& node, const Tensors& x) {
  const std::string mode = node.text("mode", "nearest");
  const std::string places = node.text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.text("nearest_mode", "round_prefer_floor");
  const int dims = x[0].dim() - 2;
  if (dims < 1) throw NotApplicable("images without batch and channels");
  if (node.integer("exclude_outside", 0) || node.integer("antialias", 0) ||
      node.number("cubic_coeff_a", -0.75) != -0.75)
    throw NotApplicable("other weights of interpolation");
  if (!node.integers("axes").empty() || node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    throw NotApplicable("sizes of some axes, or sizes that are bounds");
  if (mode == "nearest" ? !(places == "half_pixel" && rounding == "round_prefer_floor") &&
                              !(places == "asymmetric" && rounding == "floor")
                        : places != "half_pixel" && places != "pytorch_half_pixel" && places != "align_corners")
    throw NotApplicable("places: " + places + (mode == "nearest" ? ", " + rounding : ""));

  InterpolateOptions options = {.mode = interpolation_named(mode, places, dims),
                                .align_corners = places == "align_corners"};
  std::vector<double> factors;
  Numbers sizes;
  if (const Tensor given = input(x, 2); given.defined() && given.numel() > 0) {
    const auto all = given.cpu().to(kFloat64).to_vector<double>();
    factors.assign(all.begin() + 2, all.end());
    for (int d = 0; d < dims; ++d) {
      const double size = double(x[0].size(d + 2)) * factors[std::size_t(d)];
      if (options.align_corners && size != std::floor(size))
        throw NotApplicable("corners of images whose size is not whole");
      sizes.push_back(std::int64_t(std::floor(size)));
    }
    options.scale_factor = factors;
  } else {
    const auto all = whole_numbers(node, x, 3, "sizes");
    sizes.assign(all.begin() + 2, all.end());
    options.size = shape_of(sizes);
  }
  if (places == "pytorch_half_pixel" && std::find(sizes.begin(), sizes.end(), 1) != sizes.end())
    throw NotApplicable("one place at the border (ours is in the middle, as PyTorch's is)");
  if (options.mode == Interpolation::nearest_exact) check_no_ties(x[0].sizes(), sizes, factors);
  return {interpolate(x[0], options)};
}

Tensors upsampled(const Node& node, const Tensors& x) {
  if (node.text("mode", "nearest") != "nearest") throw NotApplicable("places: asymmetric");
  const auto all = x[1].cpu().to(kFloat64).to_vector<double>();
  return {interpolate(x[0], {.scale_factor = std::vector<double>(all.begin() + 2, all.end())})};
}

// DCR divides the channels into blocks first. channel_shuffle brings them into pixel_shuffle's order.
Tensors depth_to_space(const Node& node, const Tensors& x) {
  const std::int64_t block = node.integer("blocksize", 1);
  const bool is_block_first = node.text("mode", "DCR") == "DCR";
  return {pixel_shuffle(is_block_first ? channel_shuffle(x[0], block * block) : x[0], block)};
}

Tensors space_to_depth(const Node& node, const Tensors& x) {
  return {channel_shuffle(pixel_unshuffle(x[0], node.integer("blocksize", 1)), x[0].size(1))};
}

// ONNX has the larger half of the window behind the element, PyTorch before it.
Tensors local_responses(const Node& node, const Tensors& x) {
  const LocalResponseOptions options = {
      .alpha = node.number("alpha", 1e-4), .beta = node.number("beta", 0.75), .k = node.number("bias", 1)};
  const std::int64_t size = node.integer("size", 1);
  if (size % 2 != 0) return {local_response_norm(x[0], size, options)};
  return {flip(local_response_norm(flip(x[0], {1}), size, options), {1})};
}

Tensors columns_added(const Node& node, const Tensors& x) {
  const Window w(node, whole_numbers(node, x, 2, "block_shape"));
  if (w.before != w.behind) throw NotApplicable("uneven padding of columns");
  return {fold(x[0], shape_of(whole_numbers(node, x, 1, "image_shape")), shape_of(w.kernel),
               {.dilation = shape_of(w.dilation), .padding = shape_of(w.before), .stride = shape_of(w.stride)})};
}

Tensor mean_of_images(const Tensor& x, const Shape& dims, bool keep) { return mean(x, dims, keep); }

}  // namespace

void add_window_rows(Table& table) {
  table.merge(Table{
      {"AveragePool", pooled_means},
      {"Col2Im", columns_added},
      {"DepthToSpace", depth_to_space},
      {"GlobalAveragePool", over_images(mean_of_images)},
      {"GlobalMaxPool", over_images(amax)},
      {"LRN", local_responses},
      {"MaxPool", pooled_greatest},
      {"MaxUnpool", unpooled_greatest},
      {"Pad", padded_around},
      {"Resize", resized},
      {"SpaceToDepth", space_to_depth},
      {"Upsample", upsampled},
  });
}

}  // namespace lockstep::onnx
