// embedding_bag, made of ops: gathers rows of the weight, then adds each to the result of its bag.
#include <lockstep/ops/embedding_bag.h>

#include <limits>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "ops/dtypes.h"
#include "ops/index_check.h"

namespace lockstep {
namespace {

constexpr const char* kBagOp = "embedding_bag";

// The indices of all bags as a 1-D tensor, and for each index its bag and its position in the bag.
struct Bags {
  Tensor index, bag, place;  // each [indices]
  std::int64_t count;
};

Bags bags_of_rows(const Tensor& index) {
  const std::int64_t count = index.size(0), size = index.size(1);
  const TensorOptions like = {.dtype = kInt64, .device = index.device()};
  return {index.reshape({-1}), arange(0, double(count), 1, like).unsqueeze(1).expand({count, size}).reshape({-1}),
          arange(0, double(size), 1, like).expand({count, size}).reshape({-1}), count};
}

Bags bags_by_offsets(const Tensor& index, const EmbeddingBagOptions& options) {
  if (!options.offsets.defined() || options.offsets.dim() != 1)
    throw InvalidArgument("[embedding_bag] expected offsets [bags] for an index of one dimension, got none");
  check_same_device(kBagOp, index, options.offsets);
  const Tensor offsets = as_index(kBagOp, options.offsets);
  const std::int64_t count = offsets.size(0) - (options.include_last_offset ? 1 : 0), indices = index.size(0);
  if (count < 0) throw ShapeError("[embedding_bag] expected at least one offset, got [0]");
  check_index(kBagOp, offsets, indices + 1);
  const TensorOptions like = {.dtype = kInt64, .device = index.device()};
  const Tensor starts = offsets.narrow(0, 0, count);
  const Tensor marks = scatter_add(zeros({indices + 1}, like), 0, starts, ones({count}, like));
  const Tensor bag = cumsum(marks, 0).narrow(0, 0, indices) - 1;
  const Tensor place = arange(0, double(indices), 1, like) - index_select(starts, 0, bag);
  return {index, bag, place, count};
}

// The sum of the rows of each bag: [bags, features]. Adds row by row, in one order.
Tensor added_by_bag(const Tensor& rows, const Bags& bags) {
  const Tensor start = zeros({bags.count, rows.size(1)}, rows.options());
  return scatter_add(start, 0, bags.bag.unsqueeze(1).expand(rows.sizes()), rows);
}

// Arranges the rows as [bags, longest bag, features], padded with `lowest`.
Tensor greatest_by_bag(const Tensor& rows, const Bags& bags, const Tensor& counts) {
  const std::int64_t features = rows.size(1);
  const std::int64_t longest = bags.place.numel() ? max(bags.place).item<std::int64_t>() + 1 : 0;
  const TensorOptions like = rows.options();
  if (longest == 0) return added_by_bag(rows, bags);
  const Tensor slot = bags.bag * double(longest) + bags.place, zero = zeros({bags.count * longest, 1}, like);
  const Tensor there = ne(scatter_add(zero, 0, slot.unsqueeze(1), counts), 0);
  const Tensor laid =
      scatter_add(zeros({bags.count * longest, features}, like), 0, slot.unsqueeze(1).expand(rows.sizes()), rows);
  const Tensor apart = where(there, laid, -std::numeric_limits<double>::infinity());
  const Tensor best = max(apart.reshape({bags.count, longest, features}), 1).values;
  return where(any(there.reshape({bags.count, longest, 1}), {1}), best, 0);
}

}  // namespace

Tensor embedding_bag(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& options) {
  check_floating(kBagOp, weight);
  check_same_device(kBagOp, weight, index);
  if (weight.dim() != 2)
    throw ShapeError(text("[embedding_bag] expected a weight [count, features], got ", weight.sizes()));
  if (index.dim() != 1 && index.dim() != 2)
    throw ShapeError(text("[embedding_bag] expected an index [bags, size] or [indices], got ", index.sizes()));
  if (index.dim() == 2 && options.offsets.defined())
    throw InvalidArgument("[embedding_bag] offsets need an index of one dimension, got an index [bags, size]");
  const Tensor& scale = options.per_sample_weights;
  if (scale.defined() && options.mode != EmbeddingBagMode::sum)
    throw InvalidArgument("[embedding_bag] per_sample_weights need the mode \"sum\"");
  if (scale.defined() && scale.sizes() != index.sizes())
    throw ShapeError(
        text("[embedding_bag] expected per_sample_weights of shape ", index.sizes(), ", got ", scale.sizes()));
  const Tensor wide = as_index(kBagOp, index);
  const Bags bags = index.dim() == 2 ? bags_of_rows(wide) : bags_by_offsets(wide, options);
  Tensor rows = embedding(weight, bags.index, options.padding_idx);
  Tensor counts = ones({bags.index.size(0), 1}, weight.options());
  if (options.padding_idx) {
    const std::int64_t padding = *options.padding_idx + (*options.padding_idx < 0 ? weight.size(0) : 0);
    counts = ne(bags.index, double(padding)).unsqueeze(1).to(weight.dtype());
    rows = rows * counts;
  }
  if (options.mode == EmbeddingBagMode::max) return greatest_by_bag(rows, bags, counts);
  if (scale.defined()) rows = rows * scale.reshape({-1, 1});
  const Tensor total = added_by_bag(rows, bags);
  if (options.mode == EmbeddingBagMode::sum) return total;
  return total / clamp(added_by_bag(counts, bags), {.min = 1});
}

}  // namespace lockstep
