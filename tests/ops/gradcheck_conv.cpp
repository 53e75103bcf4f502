// Gradient checks of convolutions and their transposes.
#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"

namespace lockstep {

std::vector<GradientCase> conv_gradient_cases() {
  using Inputs = std::vector<Tensor>;
  return {
      {"conv1d", [](const Inputs& x) { return conv1d(x[0], x[1], x[2]); }, {{2, 2, 5}, {3, 2, 3}, {3}}},
      {"conv1d_unbatched", [](const Inputs& x) { return conv1d(x[0], x[1]); }, {{2, 5}, {3, 2, 2}}},
      {"conv1d_same",
       [](const Inputs& x) { return conv1d(x[0], x[1], {}, {.padding = Padding::same}); },
       {{1, 2, 5}, {2, 2, 4}}},
      {"conv2d", [](const Inputs& x) { return conv2d(x[0], x[1], x[2]); }, {{2, 2, 4, 3}, {3, 2, 3, 2}, {3}}},
      {"conv2d_strided",
       [](const Inputs& x) {
         return conv2d(x[0], x[1], x[2], {.stride = {2, 1}, .padding = {1, 2}});
       },
       {{1, 2, 5, 4}, {2, 2, 3, 3}, {2}}},
      {"conv2d_dilated_groups",
       [](const Inputs& x) { return conv2d(x[0], x[1], x[2], {.padding = 1, .dilation = 2, .groups = 2}); },
       {{1, 4, 4, 4}, {2, 2, 2, 2}, {2}}},
      {"conv3d",
       [](const Inputs& x) { return conv3d(x[0], x[1], x[2], {.stride = 2, .padding = 1}); },
       {{1, 2, 3, 3, 2}, {2, 2, 2, 3, 2}, {2}}},
      {"conv_transpose1d",
       [](const Inputs& x) { return conv_transpose1d(x[0], x[1], x[2], {.stride = 2, .output_padding = 1}); },
       {{2, 2, 3}, {2, 3, 3}, {3}}},
      {"conv_transpose2d",
       [](const Inputs& x) {
         return conv_transpose2d(x[0], x[1], x[2], {.stride = 2, .padding = 1, .output_padding = {0, 1}});
       },
       {{1, 2, 3, 2}, {2, 2, 3, 3}, {2}}},
      {"conv_transpose2d_dilated_groups",
       [](const Inputs& x) {
         return conv_transpose2d(x[0], x[1], {}, {.groups = 2, .dilation = {1, 2}});
       },
       {{1, 4, 2, 2}, {4, 1, 2, 2}}},
      {"conv_transpose3d",
       [](const Inputs& x) { return conv_transpose3d(x[0], x[1]); },
       {{1, 2, 2, 2, 1}, {2, 1, 2, 1, 2}}},
  };
}

}  // namespace lockstep
