#include <lockstep/extend/kernels.h>

#include "core/text.h"

namespace lockstep::extend::detail {

RowPlan plan_rows(const char* op, std::span<const Tensor* const> inputs, const RowOptions& options) {
  const Shape& first = inputs.front()->sizes();
  const int dim = wrap_dim(op, options.dim, first.empty() ? 1 : first.rank());
  for (const Tensor* each : inputs.subspan(1)) {
    const Shape& sizes = each->sizes();
    bool fits = sizes.rank() == first.rank();
    for (int d = 0; fits && d < first.rank(); ++d) fits = d == dim || sizes[d] == first[d];
    if (!fits)
      throw ShapeError(text("[", op, "] expected inputs with equal sizes except in dimension ", dim, ", got ", first,
                            " and ", sizes));
  }
  if (options.length && (*options.length < 0 || (first.empty() && *options.length != 1)))
    throw ShapeError(text("[", op, "] expected options.length of at least 0 for inputs of shape ", first,
                          ", and of 1 for inputs without dimensions, got ", *options.length));
  RowPlan plan{dim, 1, first};
  for (int d = 0; d < first.rank(); ++d)
    if (d != dim) plan.rows *= first[d];
  if (options.length && !first.empty()) plan.result_sizes[dim] = *options.length;
  return plan;
}

}  // namespace lockstep::extend::detail
