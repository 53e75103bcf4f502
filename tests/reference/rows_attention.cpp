// Attention, and layers with it.
#include <lockstep/nn/transformer.h>
#include <lockstep/ops/attention.h>

#include "nn/each_state.h"
#include "reference/rows.h"

namespace lockstep::reference {
namespace {

// Replaces the parameters by the inputs after the first one, which have the same order.
void bind(nn::ModuleBase& layer, const Call& call) {
  std::size_t next = 1;
  nn::for_each_state(
      layer, [&](const nn::Path&, nn::Parameter& parameter) { static_cast<Tensor&>(parameter) = call[next++]; });
}

Outputs multihead_attention(const Call& c) {
  nn::MultiheadAttention layer(c.integer("embed_dim"), c.integer("num_heads"), {.batch_first = c.flag("batch_first")});
  bind(layer, c);
  return layer(c[0], c[0], c[0]).output;
}

Outputs transformer_encoder_layer(const Call& c) {
  nn::TransformerEncoderLayer layer(c.integer("d_model"), c.integer("nhead"),
                                    {.dim_feedforward = c.integer("dim_feedforward"),
                                     .dropout = c.number("dropout"),
                                     .batch_first = c.flag("batch_first"),
                                     .norm_first = c.flag("norm_first")});
  bind(layer, c);
  return layer(c[0]);
}

}  // namespace

void add_attention_rows(Table& table) {
  table.merge(Table{
      {"multihead_attention", multihead_attention},
      {"scaled_dot_product_attention",
       [](const Call& c) {
         return scaled_dot_product_attention(c[0], c[1], c[2], {.is_causal = c.flag("is_causal")});
       }},
      {"transformer_encoder_layer", transformer_encoder_layer},
  });
}

}  // namespace lockstep::reference
