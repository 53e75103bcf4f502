// Gradient checks of attention.
#include "ops/all_ops.h"
#include "ops/gradcheck_cases.h"

namespace lockstep {

std::vector<GradientCase> attention_gradient_cases() {
  using Inputs = std::vector<Tensor>;
  return {
      {"scaled_dot_product_attention",
       [](const Inputs& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); },
       {{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}}},
      {"scaled_dot_product_attention_causal",
       [](const Inputs& x) {
         return scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true, .scale = 0.7});
       },
       {{1, 3, 2}, {1, 4, 2}, {1, 4, 2}}},
      {"scaled_dot_product_attention_grouped",
       [](const Inputs& x) {
         return scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true, .enable_gqa = true});
       },
       {{1, 4, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}}},
      {"scaled_dot_product_attention_added_mask",
       [](const Inputs& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}); },
       {{2, 2, 3, 2}, {2, 2, 3, 2}, {2, 2, 3, 2}, {2, 1, 3, 3}}},
      {"scaled_dot_product_attention_hidden",
       [](const Inputs& x) {
         const Tensor sees = tensor({{true, false, true}, {false, false, false}, {true, true, true}});
         return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = sees});
       },
       {{2, 3, 2}, {2, 3, 2}, {2, 3, 2}}},
      {"rotary_embedding", [](const Inputs& x) { return rotary_embedding(x[0], arange(3)); }, {{2, 3, 4}}},
      {"rotary_embedding_neighbors",
       [](const Inputs& x) { return rotary_embedding(x[0], x[1], x[2], RotaryPairs::neighbors); },
       {{2, 3, 4}, {3, 2}, {3, 2}}},
  };
}

}  // namespace lockstep
