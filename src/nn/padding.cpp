#include <lockstep/nn/padding.h>

#include <utility>

#include "core/text.h"

namespace lockstep::nn {

PadState::PadState(int dims, std::int64_t all, const PaddingOptions& options)
    : PadState(dims, std::vector<std::int64_t>(std::size_t(2 * dims), all), options) {}

PadState::PadState(int dims, std::vector<std::int64_t> each, const PaddingOptions& options)
    : dims_(dims), padding_(std::move(each)), options_(options) {
  if (padding_.size() != std::size_t(2 * dims))
    throw ShapeError(text("[pad] expected one number, or ", 2 * dims, " (two for each dimension), got ",
                          padding_.size(), " of them"));
}

Tensor PadState::padded(const Tensor& x) const {
  const int rank = x.dim();
  if (options_.mode != PadMode::constant && rank != dims_ + 1 && rank != dims_ + 2)
    throw ShapeError(text("[pad] expected x [N, C, ", dims_, " sizes] or [C, ", dims_, " sizes], got ", x.sizes()));
  return pad(x, padding_, options_);
}

}  // namespace lockstep::nn
