#include <lockstep/nn/dropout.h>

#include "core/text.h"

namespace lockstep::nn::detail {

double checked_probability(const char* layer, double p) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgument(text("[", layer, "] expected a probability from 0 to 1, got ", p));
  return p;
}

Tensor dropped_channels(const char* layer, const Tensor& x, int rank, double p, bool training) {
  if (x.dim() != rank && x.dim() != rank - 1)
    throw ShapeError(
        text("[", layer, "] expected x of ", rank, " dimensions, or ", rank - 1, " for one sample, got ", x.sizes()));
  if (x.dim() == rank) return channel_dropout(x, p, training);
  return channel_dropout(x.unsqueeze(1), p, training).squeeze(1);  // as a batch of single channels
}

}  // namespace lockstep::nn::detail
