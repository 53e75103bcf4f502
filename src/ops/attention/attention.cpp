// scaled_dot_product_attention: makes the inputs 4-dim, then runs Backend::fused. If the backend declines, runs
// attention made of other operations: block by block (blocks.h), or on all scores at once (composed.h) if blocks are
// not possible.
#include <lockstep/ops/attention.h>

#include <cmath>
#include <limits>
#include <optional>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "kernels/geometry.h"
#include "ops/attention/blocks.h"
#include "ops/autocast.h"
#include "ops/dtypes.h"
#include "ops/fused.h"
#include "ops/product.h"
#include "ops/record.h"

namespace lockstep {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

Shape leading(const Tensor& x, int last) { return Shape(std::span(x.sizes().begin(), std::size_t(x.dim() - last))); }

Shape joined(const Shape& leading, std::int64_t rows, std::int64_t columns) {
  Shape all = leading;
  all.push_back(rows);
  all.push_back(columns);
  return all;
}

void check(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check_factors(kName, query, key);
  check_factors(kName, query, value);
  const Shape &q = query.sizes(), &k = key.sizes(), &v = value.sizes();
  const int least = options.enable_gqa ? 3 : 2;
  if (q.rank() < least || k.rank() != q.rank() || v.rank() != q.rank() || k.back() != q.back() ||
      v[v.rank() - 2] != k[k.rank() - 2])
    throw ShapeError(text("[", kName,
                          "] expected [..., queries, features], [..., keys, features] and [..., keys, out], got ", q,
                          ", ", k, " and ", v));
  if (options.enable_gqa) {
    const std::int64_t heads = q[q.rank() - 3], groups = k[k.rank() - 3];
    if (v[v.rank() - 3] != groups || (groups == 0 ? heads != 0 : heads % groups != 0))
      throw ShapeError(text("[", kName, "] expected a query with a multiple of the heads of key and value, got ", q,
                            ", ", k, " and ", v));
  }
  if (!(options.dropout >= 0 && options.dropout <= 1))
    throw InvalidArgument(text("[", kName, "] expected a dropout from 0 to 1, got ", options.dropout));
  if (!options.mask.defined()) return;
  check_same_device(kName, query, options.mask);
  if (options.is_causal) throw InvalidArgument(text("[", kName, "] expected a mask or is_causal, got both"));
  if (options.mask.dtype() != kBool && options.mask.dtype() != query.dtype())
    throw DTypeError(text("[", kName, "] expected a mask of bool or ", query.dtype(), ", got ", options.mask.dtype()));
}

// The leading dimensions after broadcasting: batches, and the heads of the query and of the key.
struct Leading {
  Shape batch;
  std::int64_t heads = 1, groups = 1;

  Leading(const Tensor& q, const Tensor& k, const Tensor& v, bool grouped) {
    const int last = grouped || q.dim() > 3 ? 3 : 2;
    batch = broadcast(kName, broadcast(kName, leading(q, last), leading(k, last)), leading(v, last));
    if (last == 2) return;
    heads = q.size(-3);
    groups = k.size(-3);
    if (!grouped) heads = groups = broadcast(kName, broadcast(kName, {heads}, {groups}), {v.size(-3)})[0];
  }
  Shape sizes(std::int64_t of, bool with_heads) const {
    Shape all = batch;
    if (with_heads) all.push_back(of);
    return all;
  }
};

// Reshapes to [batch, heads, rows, columns]: a view if the memory layout allows it.
Tensor to_4d(const Tensor& x, const Leading& lead, std::int64_t heads, bool with_heads) {
  const Shape whole = joined(lead.sizes(heads, with_heads), x.size(-2), x.size(-1));
  const Tensor all = x.sizes() == whole ? x : x.expand(whole);
  return all.reshape({lead.batch.elements(), heads, x.size(-2), x.size(-1)});
}

// The additive mask, 4-dim, with size 1 where it broadcasts.
Tensor additive_mask(const Tensor& mask, const Leading& lead, bool with_heads, const Shape& scores, DType dtype) {
  if (!mask.defined()) return mask;
  if (broadcast(kName, scores, mask.sizes()) != scores)
    throw ShapeError(text("[", kName, "] expected a mask that broadcasts to ", scores, ", got ", mask.sizes()));
  Tensor x = mask;
  if (mask.dtype() == kBool) {
    const TensorOptions like = {.dtype = dtype, .device = mask.device()};
    x = where(mask, zeros({}, like), full({}, -std::numeric_limits<double>::infinity(), like));
  }
  while (x.dim() < scores.rank()) x = x.unsqueeze(0);
  if (!with_heads) x = x.unsqueeze(-3);
  if (lead.batch.rank() == 0) return x.unsqueeze(0);
  if (lead.batch.rank() == 1) return x;
  const int rest = x.dim() - 3;
  const Shape tail(std::span(x.sizes().begin() + rest, 3));
  std::int64_t count = 1;
  Shape whole = lead.batch;
  for (int i = 0; i < rest; ++i) count *= x.size(i);
  for (const std::int64_t size : tail) whole.push_back(size);
  if (count != 1) x = x.expand(whole);
  return x.reshape({count == 1 ? 1 : lead.batch.elements(), tail[0], tail[1], tail[2]});
}

// Returns x with contiguous features (the last dimension), which fused operations need.
Tensor contiguous_features(const Tensor& x) { return x.strides().back() == 1 || x.size(-1) == 1 ? x : x.contiguous(); }

FusedOp description(FusedKind kind, const char* name, const AttentionInputs& in, double products,
                    const DropoutMask& dropout) {
  const GeneratorState& start = dropout.start.now;
  return {.kind = kind,
          .name = name,
          .flops = products * double(in.query.numel()) * double(in.key.size(2)) * (in.causal ? 1 : 2),
          .scale = in.scale,
          .causal = in.causal,
          .dropout = {.threshold = dropout.threshold,
                      .scale = dropout.scale,
                      .start = {start.seed, start.stream, start.offset},
                      .first = dropout.place.first,
                      .run = dropout.place.run,
                      .stride = dropout.place.stride}};
}

// What the backward of fused attention needs besides the inputs.
struct FusedForward {
  Tensor y, logsumexp;
  std::optional<DropoutDraw> dropout;

  DropoutMask mask() const { return dropout ? dropout->mask : DropoutMask(); }
  Tensor start() const { return dropout ? dropout->memory : Tensor(); }
};

Gradients gradients_of(const Tensor& given, const AttentionInputs& in, const FusedForward& forward) {
  const auto all = [](const AttentionGradients& x) { return Gradients{x.query, x.key, x.value}; };
  if (grad_enabled()) return all(composed_attention_gradients(given, in, forward.dropout));
  const Tensor g = contiguous_features(given), start = forward.start();
  {
    const Tensor q = by_position(in.query, in.query.sizes()), k = by_position(in.key, in.key.sizes()),
                 v = by_position(in.value, in.value.sizes());
    if (run_fused(description(FusedKind::attention_gradient, "attention_gradient", in, 5, forward.mask()),
                  {{g},
                   {in.query},
                   {in.key},
                   {in.value},
                   {in.mask},
                   {forward.y},
                   {forward.logsumexp},
                   {q, true},
                   {k, true},
                   {v, true},
                   {start}}))
      return {q, k, v};
  }
  if (forward.dropout) return all(composed_attention_gradients(given, in, forward.dropout));
  return all(attention_gradients_by_blocks(g, in, attention_block_rows(in.key.size(2)), forward.y, forward.logsumexp));
}

Tensor attention(const AttentionInputs& in, double dropout, const Shape& scores) {
  const Shape q = in.query.sizes();
  DeviceState& device = *in.query.impl()->storage->device;
  const bool on_host = !device.backend.launches_grids();
  if ((dropout > 0 && on_host) || (in.mask.defined() && records(in.mask)) || q.elements() == 0 || in.key.numel() == 0 ||
      in.value.numel() == 0)
    return composed_attention(in, dropout, scores);
  AttentionInputs dense = {contiguous_features(in.query),
                           contiguous_features(in.key),
                           contiguous_features(in.value),
                           in.mask,
                           in.scale,
                           in.causal};
  if (dense.mask.defined()) dense.mask = dense.mask.detach().expand({q[0], q[1], q[2], in.key.size(2)});
  const DType wide = wide_dtype(in.query.dtype());
  FusedForward forward = {
      by_position(in.query, {q[0], q[1], q[2], in.value.size(3)}), make_tensor(device, {q[0], q[1], q[2]}, wide), {}};
  const auto with = [&](const auto& use, const DropoutMask& mask, const Tensor& start) {
    return use(description(FusedKind::attention, "attention", in, 2, mask), {{dense.query},
                                                                             {dense.key},
                                                                             {dense.value},
                                                                             {dense.mask},
                                                                             {forward.y, true},
                                                                             {forward.logsumexp, true},
                                                                             {start}});
  };
  if (dropout > 0) {
    const DropoutMask mask = dropout_mask(dropout, scores);
    if (!with(offers_fused, mask, Tensor())) return composed_attention(in, dropout, scores);
    forward.dropout = draw_dropout(device, mask);
  }
  if (!with(run_fused, forward.mask(), forward.start())) {
    if (wide != in.query.dtype() && on_host)
      return attention({in.query.to(wide), in.key.to(wide), in.value.to(wide),
                        in.mask.defined() ? in.mask.to(wide) : in.mask, in.scale, in.causal},
                       dropout, scores)
          .to(in.query.dtype());
    attention_by_blocks(dense, attention_block_rows(in.key.size(2)), forward.y, forward.logsumexp);
  }
  Tensor out = forward.y;
  if (records(in.query, in.key, in.value))
    record("ScaledDotProductAttention", out, {&in.query, &in.key, &in.value},
           [q = Saved(dense.query), k = Saved(dense.key), v = Saved(dense.value), mask = Saved(dense.mask),
            y = Saved(out, kOutput), logsumexp = Saved(forward.logsumexp), dropout = forward.dropout, scale = in.scale,
            causal = in.causal](const Tensor& g) {
             return gradients_of(g, {q.get(), k.get(), v.get(), mask.get(), scale, causal},
                                 {y.get(), logsumexp.get(), dropout});
           });
  return out;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  if (const auto cast = autocast::product()) {
    AttentionOptions inside = options;
    inside.mask = cast(options.mask);
    return scaled_dot_product_attention(cast(query), cast(key), cast(value), inside);
  }
  check(query, key, value, options);
  const Leading lead(query, key, value, options.enable_gqa);
  const bool with_heads = options.enable_gqa || query.dim() > 3;
  const Shape all = lead.sizes(lead.heads, with_heads);
  const Shape scores = joined(all, query.size(-2), key.size(-2));
  const std::int64_t features = query.size(-1);
  const AttentionInputs inputs = {to_4d(query, lead, lead.heads, with_heads),
                                  to_4d(key, lead, lead.groups, with_heads),
                                  to_4d(value, lead, lead.groups, with_heads),
                                  additive_mask(options.mask, lead, with_heads, scores, query.dtype()),
                                  options.scale.value_or(features > 0 ? 1 / std::sqrt(double(features)) : 1),
                                  options.is_causal};
  return attention(inputs, options.dropout, scores).reshape(joined(all, query.size(-2), value.size(-1)));
}

}  // namespace lockstep
