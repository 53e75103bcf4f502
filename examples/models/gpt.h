// A transformer with the structure and names of GPT-2 (Radford et al. 2019). Linear weights have nn::Linear's layout.
#pragma once

#include <lockstep/lockstep.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace gpt {

// Causal self-attention: each position attends to itself and to those before it.
struct Attention : lockstep::nn::Module<Attention> {
  lockstep::nn::Linear c_attn, c_proj;
  std::int64_t heads;

  Attention(std::int64_t width, std::int64_t head_count)
      : c_attn(width, 3 * width), c_proj(width, width), heads(head_count) {}
  auto members() { return lockstep::nn::members("c_attn", c_attn, "c_proj", c_proj); }
  lockstep::Tensor forward(const lockstep::Tensor& x) {
    using namespace lockstep;
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const std::vector<Tensor> qkv =
        unbind(c_attn(x).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}));
    const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {.is_causal = true});
    return c_proj(y.transpose(1, 2).reshape({batch, length, width}));
  }
};

struct FeedForward : lockstep::nn::Module<FeedForward> {
  lockstep::nn::Linear c_fc, c_proj;

  explicit FeedForward(std::int64_t width) : c_fc(width, 4 * width), c_proj(4 * width, width) {}
  auto members() { return lockstep::nn::members("c_fc", c_fc, "c_proj", c_proj); }
  lockstep::Tensor forward(const lockstep::Tensor& x) { return c_proj(gelu(c_fc(x))); }
};

struct Block : lockstep::nn::Module<Block> {
  lockstep::nn::LayerNorm ln_1;
  Attention attn;
  lockstep::nn::LayerNorm ln_2;
  FeedForward mlp;

  Block(std::int64_t width, std::int64_t heads) : ln_1({width}), attn(width, heads), ln_2({width}), mlp(width) {}
  auto members() { return lockstep::nn::members("ln_1", ln_1, "attn", attn, "ln_2", ln_2, "mlp", mlp); }
  lockstep::Tensor forward(const lockstep::Tensor& x) {
    const auto [stream, branch] = parts(x, {});
    return stream + branch;
  }
  // forward() in two parts, whose sum is its result: the next block adds them and normalizes the sum in one kernel. The
  // same holds of x and branch, which is undefined for the first block.
  std::pair<lockstep::Tensor, lockstep::Tensor> parts(const lockstep::Tensor& x, const lockstep::Tensor& branch) {
    const auto [stream, normal] = branch.defined() ? ln_1.after_add(x, branch) : lockstep::SumAndNorm{x, ln_1(x)};
    const auto [attended, normal_attended] = ln_2.after_add(stream, attn(normal));
    return {attended, mlp(normal_attended)};
  }
};

}  // namespace gpt

struct GptOptions {
  std::int64_t vocabulary, length, width, heads, layers;
  bool tied = false;        // the head uses the embedding's weight, as the published GPT-2 does: there is no lm_head
  bool checkpoint = false;  // recompute each block in backward: less memory, a third more work
};

// tokens: int64 [batch, at most `length`]. Returns the logits of the next token: [batch, tokens, vocabulary].
struct Gpt : lockstep::nn::Module<Gpt> {
  lockstep::nn::Embedding wte, wpe;
  std::vector<gpt::Block> h;
  lockstep::nn::LayerNorm ln_f;
  std::optional<lockstep::nn::Linear> lm_head;
  bool checkpointed;

  explicit Gpt(const GptOptions& options)
      : wte(options.vocabulary, options.width),
        wpe(options.length, options.width),
        ln_f({options.width}),
        checkpointed(options.checkpoint) {
    if (!options.tied) lm_head.emplace(options.width, options.vocabulary, lockstep::nn::LinearOptions{.bias = false});
    for (std::int64_t i = 0; i < options.layers; ++i) h.emplace_back(options.width, options.heads);
  }
  auto members() { return lockstep::nn::members("wte", wte, "wpe", wpe, "h", h, "ln_f", ln_f, "lm_head", lm_head); }
  lockstep::Tensor forward(const lockstep::Tensor& tokens) {
    using namespace lockstep;
    Tensor x = wte(tokens) + wpe(arange(double(tokens.size(1)), {.dtype = kInt64, .device = tokens.device()})), branch;
    for (gpt::Block& block : h)
      if (checkpointed)
        x = checkpoint([&block](const Tensor& y) { return block(y); }, x);
      else
        std::tie(x, branch) = block.parts(x, branch);
    const Tensor normal = branch.defined() ? ln_f.after_add(x, branch).norm : ln_f(x);
    return lm_head ? (*lm_head)(normal) : linear(normal, wte.weight);
  }
};
