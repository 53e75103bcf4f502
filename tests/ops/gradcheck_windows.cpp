// Gradient checks of pooling and other window operations.
#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"

namespace lockstep {
namespace {

using Inputs = std::vector<Tensor>;

std::vector<GradientCase> pooling_cases() {
  return {
      {"max_pool1d", [](const Inputs& x) { return max_pool1d(x[0], 3, {.stride = 2, .padding = 1}); }, {{2, 2, 7}}},
      {"max_pool2d", [](const Inputs& x) { return max_pool2d(x[0], 2); }, {{2, 2, 4, 5}}},
      {"max_pool2d_overlapping",
       [](const Inputs& x) { return max_pool2d(x[0], 3, {.stride = 1, .padding = 1, .dilation = 2}); },
       {{1, 2, 5, 6}}},
      {"max_pool3d",
       [](const Inputs& x) { return max_pool3d(x[0], 2, {.stride = 2, .ceil_mode = true}); },
       {{1, 2, 3, 3, 4}}},
      {"max_pool1d_with_indices", [](const Inputs& x) { return max_pool1d_with_indices(x[0], 2).values; }, {{2, 2, 6}}},
      {"max_pool2d_with_indices", [](const Inputs& x) { return max_pool2d_with_indices(x[0], 2).values; }, {{2, 4, 4}}},
      {"max_pool3d_with_indices",
       [](const Inputs& x) { return max_pool3d_with_indices(x[0], 2).values; },
       {{1, 2, 2, 4, 4}}},
      {"avg_pool1d", [](const Inputs& x) { return avg_pool1d(x[0], 3, {.stride = 2, .padding = 1}); }, {{2, 2, 7}}},
      {"avg_pool2d",
       [](const Inputs& x) {
         return avg_pool2d(x[0], {2, 3}, {.stride = 1});
       },
       {{1, 2, 4, 5}}},
      {"avg_pool2d_ceil",
       [](const Inputs& x) {
         return avg_pool2d(x[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
       },
       {{1, 2, 4, 5}}},
      {"avg_pool3d", [](const Inputs& x) { return avg_pool3d(x[0], 2, {.divisor_override = 3}); }, {{1, 2, 3, 4, 4}}},
      {"adaptive_avg_pool1d", [](const Inputs& x) { return adaptive_avg_pool1d(x[0], 3); }, {{2, 2, 7}}},
      {"adaptive_avg_pool2d",
       [](const Inputs& x) {
         return adaptive_avg_pool2d(x[0], {3, -1});
       },
       {{2, 2, 5, 4}}},
      {"adaptive_avg_pool3d", [](const Inputs& x) { return adaptive_avg_pool3d(x[0], 2); }, {{1, 2, 3, 4, 5}}},
      {"adaptive_max_pool1d", [](const Inputs& x) { return adaptive_max_pool1d(x[0], 3); }, {{2, 2, 7}}},
      {"adaptive_max_pool2d",
       [](const Inputs& x) {
         return adaptive_max_pool2d(x[0], {3, -1});
       },
       {{2, 2, 5, 4}}},
      {"adaptive_max_pool3d", [](const Inputs& x) { return adaptive_max_pool3d(x[0], 2); }, {{1, 2, 3, 4, 5}}},
      {"adaptive_max_pool1d_with_indices",
       [](const Inputs& x) { return adaptive_max_pool1d_with_indices(x[0], 3).values; },
       {{2, 2, 7}}},
      {"adaptive_max_pool2d_with_indices",
       [](const Inputs& x) { return adaptive_max_pool2d_with_indices(x[0], 2).values; },
       {{2, 5, 4}}},
      {"adaptive_max_pool3d_with_indices",
       [](const Inputs& x) { return adaptive_max_pool3d_with_indices(x[0], 2).values; },
       {{1, 2, 3, 3, 4}}},
      {"max_unpool1d",
       [](const Inputs& x) {
         return max_unpool1d(x[0], tensor({1, 2, 5, 0, 3, 4}).view({1, 2, 3}), 2);
       },
       {{1, 2, 3}}},
      {"max_unpool2d",
       [](const Inputs& x) {
         return max_unpool2d(x[0], tensor({5, 7, 8, 11}).view({1, 2, 2}), 2);
       },
       {{1, 2, 2}}},
      {"max_unpool3d",
       [](const Inputs& x) {
         return max_unpool3d(x[0], tensor({5, 9}).view({1, 1, 1, 2}), 2, {.output_size = Shape{2, 2, 5}});
       },
       {{1, 1, 1, 2}}},
      {"lp_pool1d", [](const Inputs& x) { return lp_pool1d(x[0], 2, 3, {.stride = 2}); }, {{1, 2, 7}}, 0.5, 2},
      {"lp_pool2d", [](const Inputs& x) { return lp_pool2d(x[0], 3, 2); }, {{1, 2, 4, 5}}, 0.5, 2},
      {"lp_pool3d",
       [](const Inputs& x) { return lp_pool3d(x[0], 1.5, 2, {.ceil_mode = true}); },
       {{1, 1, 3, 3, 4}},
       0.5,
       2},
  };
}

std::vector<GradientCase> interpolation_cases() {
  const auto resized = [](const InterpolateOptions& options) {
    return [options](const Inputs& x) { return interpolate(x[0], options); };
  };
  return {
      {"interpolate_nearest", resized({.size = {3, 7}}), {{2, 2, 4, 3}}},
      {"interpolate_nearest_exact",
       resized({.scale_factor = {1.5, 0.7}, .mode = Interpolation::nearest_exact}),
       {{1, 2, 4, 5}}},
      {"interpolate_linear", resized({.scale_factor = 1.7, .mode = Interpolation::linear}), {{2, 2, 5}}},
      {"interpolate_bilinear",
       resized({.size = {2, 6}, .mode = Interpolation::bilinear, .align_corners = true}),
       {{1, 2, 4, 3}}},
      {"interpolate_trilinear", resized({.size = {2, 3, 5}, .mode = Interpolation::trilinear}), {{1, 2, 2, 3, 3}}},
      {"interpolate_bicubic", resized({.size = {7, 3}, .mode = Interpolation::bicubic}), {{1, 2, 4, 5}}},
      {"interpolate_bicubic_corners",
       resized({.size = {7, 3}, .mode = Interpolation::bicubic, .align_corners = true}),
       {{1, 1, 4, 5}}},
      {"interpolate_area", resized({.size = {3, 2}, .mode = Interpolation::area}), {{1, 2, 4, 5}}},
  };
}

// Constant padding is in gradcheck_structure.cpp.
std::vector<GradientCase> image_cases() {
  const auto padded = [](std::vector<std::int64_t> padding, PadMode mode) {
    return [=](const Inputs& x) { return pad(x[0], padding, {.mode = mode}); };
  };
  return {
      {"pad_reflect", padded({3, 1, 1, 2}, PadMode::reflect), {{2, 3, 4}}},
      {"pad_replicate", padded({3, 1, 0, 4, 2, 2}, PadMode::replicate), {{2, 3, 4}}},
      {"pad_circular", padded({4, 1, 1, -2}, PadMode::circular), {{2, 4, 4}}},
      {"unfold",
       [](const Inputs& x) {
         return unfold(x[0], {2, 3});
       },
       {{2, 2, 4, 5}}},
      {"unfold_strided",
       [](const Inputs& x) {
         return unfold(x[0], 3, {.dilation = {2, 1}, .padding = {1, 2}, .stride = {2, 3}});
       },
       {{1, 2, 5, 4}}},
      {"fold",
       [](const Inputs& x) {
         return fold(x[0], {4, 3}, 2, {.stride = {2, 1}});
       },
       {{2, 8, 4}}},
      {"fold_line", [](const Inputs& x) { return fold(x[0], {7}, 3, {.padding = 1, .stride = 2}); }, {{2, 6, 4}}},
      {"fold_volume",
       [](const Inputs& x) {
         return fold(x[0], {2, 3, 3}, 2);
       },
       {{8, 4}}},
      {"pixel_shuffle", [](const Inputs& x) { return pixel_shuffle(x[0], 2); }, {{1, 8, 2, 3}}},
      {"pixel_unshuffle", [](const Inputs& x) { return pixel_unshuffle(x[0], 2); }, {{2, 1, 4, 2}}},
      {"channel_shuffle", [](const Inputs& x) { return channel_shuffle(x[0], 2); }, {{2, 4, 3}}},
      {"grid_sample", [](const Inputs& x) { return grid_sample(x[0], x[1]); }, {{1, 2, 3, 4}, {1, 2, 2, 2}}, -0.9, 0.9},
      {"grid_sample_bicubic",
       [](const Inputs& x) { return grid_sample(x[0], x[1], {.mode = "bicubic", .padding_mode = "reflection"}); },
       {{1, 1, 3, 4}, {1, 2, 2, 2}}},
      {"grid_sample_of_a_volume",
       [](const Inputs& x) { return grid_sample(x[0], x[1], {.padding_mode = "border", .align_corners = true}); },
       {{1, 1, 2, 3, 2}, {1, 1, 1, 2, 3}}},
      {"local_response_norm",
       [](const Inputs& x) { return local_response_norm(x[0], 3, {.alpha = 0.5, .beta = 0.6, .k = 1.5}); },
       {{2, 4, 2, 2}}},
  };
}

}  // namespace

std::vector<GradientCase> window_gradient_cases() {
  std::vector<GradientCase> all = pooling_cases();
  for (const auto& cases : {interpolation_cases(), image_cases()}) all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace lockstep
