#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/tensor/creation.h>

#include <limits>
#include <optional>
#include <tuple>

#include "reference/rows.h"

namespace lockstep::reference {
namespace {

using Reduction = Tensor (*)(const Tensor&, const Shape&, bool);

// Reduces over the dimensions that the case names, or over all.
Row reduction(Reduction over, Tensor (*over_all)(const Tensor&) = nullptr) {
  return [=](const Call& c) {
    return c.arg<Json>("dim", {}).is_null() ? over_all(c[0]) : over(c[0], c.integers("dim"), c.flag("keepdim"));
  };
}

VarianceOptions variance_options(const Call& c) {
  return {.correction = c.integer("correction"), .keep_dims = c.flag("keepdim")};
}

Outputs both(const ValuesAndIndices& found) { return std::vector{found.values, found.indices}; }

Outputs sliced(const Call& c) {
  Tensor x = c[0];
  std::int64_t dim = 0;
  for (const Json& slice : c.arg<Json>("slices")) {
    const std::int64_t stop =
        slice[1].is_null() ? std::numeric_limits<std::int64_t>::max() : slice[1].get<std::int64_t>();
    x = x.slice(dim++, slice[0], stop, slice[2]);
  }
  return x;
}

Outputs batch_normalized(const Call& c) {
  const BatchNormOptions options = {
      .training = c.flag("training"), .momentum = c.number("momentum"), .eps = c.number("eps")};
  const Tensor y = batch_norm(c[0], c[3], c[4], c[1], c[2], options);
  return std::vector{y, c[3], c[4]};
}

Table reductions() {
  return {
      {"sum", reduction(sum, sum)},
      {"mean", reduction(mean, mean)},
      {"prod", reduction(prod, prod)},
      {"amax", reduction(amax)},
      {"amin", reduction(amin)},
      {"logsumexp", reduction(logsumexp)},
      {"var", [](const Call& c) { return var(c[0], c.integers("dim"), variance_options(c)); }},
      {"std", [](const Call& c) { return stddev(c[0], c.integers("dim"), variance_options(c)); }},
      {"norm", [](const Call& c) { return norm(c[0]); }},
      {"argmax", [](const Call& c) { return argmax(c[0], c.integer("dim")); }},
      {"cumsum", [](const Call& c) { return cumsum(c[0], c.integer("dim")); }},
      {"topk", [](const Call& c) { return both(topk(c[0], c.integer("k"), c.integer("dim"))); }},
      {"sort", [](const Call& c) { return both(sort(c[0], c.integer("dim"), c.flag("descending"))); }},
      {"softmax", [](const Call& c) { return softmax(c[0], c.integer("dim")); }},
      {"log_softmax", [](const Call& c) { return log_softmax(c[0], c.integer("dim")); }},
      {"layer_norm", [](const Call& c) { return layer_norm(c[0], c[1].sizes(), c[1], c[2], c.number("eps")); }},
      {"group_norm",
       [](const Call& c) { return group_norm(c[0], c.integer("num_groups"), c[1], c[2], c.number("eps")); }},
      {"batch_norm", batch_normalized},
  };
}

Table products() {
  return {
      {"matmul", [](const Call& c) { return matmul(c[0], c[1]); }},
      {"linear", [](const Call& c) { return linear(c[0], c[1], c.inputs().size() > 2 ? c[2] : Tensor()); }},
      {"addmm", [](const Call& c) { return addmm(c[0], c[1], c[2]); }},
      {"outer", [](const Call& c) { return outer(c[0], c[1]); }},
  };
}

Table shapes() {
  return {
      {"permute", [](const Call& c) { return c[0].permute(c.integers("dims")); }},
      {"transpose", [](const Call& c) { return c[0].transpose(c.integer("dim0"), c.integer("dim1")); }},
      {"slice", sliced},
      {"expand", [](const Call& c) { return c[0].expand(c.integers("size")); }},
      {"cat", [](const Call& c) { return cat(c.inputs(), c.integer("dim")); }},
      {"stack", [](const Call& c) { return stack(c.inputs(), c.integer("dim")); }},
      {"chunk", [](const Call& c) { return chunk(c[0], c.integer("chunks"), c.integer("dim")); }},
      {"roll", [](const Call& c) { return roll(c[0], c.integers("shifts"), c.integers("dim")); }},
      {"flip", [](const Call& c) { return flip(c[0], c.integers("dims")); }},
      {"tril", [](const Call& c) { return tril(c[0], c.arg<std::int64_t>("diagonal", 0)); }},
      {"triu", [](const Call& c) { return triu(c[0], c.arg<std::int64_t>("diagonal", 0)); }},
  };
}

Table indexing() {
  return {
      {"index_select", [](const Call& c) { return index_select(c[0], c.integer("dim"), c[1]); }},
      {"gather", [](const Call& c) { return gather_elements(c[0], c.integer("dim"), c[1]); }},
      {"scatter_add", [](const Call& c) { return scatter_add(c[0], c.integer("dim"), c[1], c[2]); }},
      {"embedding",
       [](const Call& c) {
         const auto padding = c.arg<Json>("padding_idx", {});
         return padding.is_null() ? embedding(c[0], c[1]) : embedding(c[0], c[1], padding.get<std::int64_t>());
       }},
  };
}

Tensor quantile_of(const Call& c) {
  const Json dim = c.arg<Json>("dim"), q = c.arg<Json>("q");
  const std::optional<std::int64_t> along =
      dim.is_null() ? std::nullopt : std::optional<std::int64_t>(dim.get<std::int64_t>());
  const bool keep = c.flag("keepdim");
  const auto interpolation = c.arg<std::string>("interpolation");
  if (q.is_number()) return quantile(c[0], q.get<double>(), along, keep, interpolation);
  return quantile(c[0], tensor(q.get<std::vector<double>>(), c[0].options()), along, keep, interpolation);
}

// Multiplies each part by its number, so that each has a different gradient.
Tensor split_and_joined(const Call& c) {
  const Json parts = c.arg<Json>("parts");
  const std::int64_t dim = c.integer("dim");
  std::vector<Tensor> all = parts.is_number() ? tensor_split(c[0], parts.get<std::int64_t>(), dim)
                                              : tensor_split(c[0], parts.get<std::vector<std::int64_t>>(), dim);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] * double(i + 1);
  return cat(all, dim);
}

Row of_both(std::tuple<Tensor, Tensor> (*function)(const Tensor&, const Shape&, const VarianceOptions&)) {
  return [=](const Call& c) {
    const auto [first, mean] = function(c[0], c.integers("dim"), variance_options(c));
    return first + 2 * mean;
  };
}

Table order_and_places() {
  return {
      {"cumprod", [](const Call& c) { return cumprod(c[0], c.integer("dim")); }},
      {"diff",
       [](const Call& c) {
         const bool joined = c.inputs().size() > 1;
         return diff(c[0], c.integer("n"), c.integer("dim"), joined ? c[1] : Tensor(), joined ? c[2] : Tensor());
       }},
      {"kthvalue",
       [](const Call& c) { return kthvalue(c[0], c.integer("k"), c.integer("dim"), c.flag("keepdim")).values; }},
      {"quantile", quantile_of},
      {"var_mean", of_both(var_mean)},
      {"std_mean", of_both(std_mean)},
      {"mv", [](const Call& c) { return mv(c[0], c[1]); }},
      {"index_copy", [](const Call& c) { return index_copy(c[0], c.integer("dim"), c[1], c[2]); }},
      {"index_fill", [](const Call& c) { return index_fill(c[0], c.integer("dim"), c[1], c[2]); }},
      {"index_fill_number", [](const Call& c) { return index_fill(c[0], c.integer("dim"), c[1], c.number("value")); }},
      {"tensor_split", split_and_joined},
      {"unflatten", [](const Call& c) { return unflatten(c[0], c.integer("dim"), c.integers("sizes")); }},
      {"tensor_unfold",
       [](const Call& c) { return c[0].unfold(c.integer("dimension"), c.integer("size"), c.integer("step")); }},
  };
}

}  // namespace

void add_structure_rows(Table& table) {
  for (const Table& rows : {reductions(), products(), shapes(), indexing(), order_and_places()})
    table.insert(rows.begin(), rows.end());
}

}  // namespace lockstep::reference
