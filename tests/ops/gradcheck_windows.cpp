// Gradient checks of pooling and of what else walks over windows.
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

}  // namespace

std::vector<GradientCase> window_gradient_cases() { return pooling_cases(); }

}  // namespace lockstep
