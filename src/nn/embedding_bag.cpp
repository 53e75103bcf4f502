#include <lockstep/nn/embedding_bag.h>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"

namespace lockstep::nn {

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t features, const EmbeddingBagLayerOptions& options)
    : mode_(options.mode), include_last_offset_(options.include_last_offset), padding_idx_(options.padding_idx) {
  if (count < 0 || features < 0)
    throw InvalidArgument(text("[EmbeddingBag] expected sizes of at least 0, got ", count, " and ", features));
  if (padding_idx_ && (*padding_idx_ < -count || *padding_idx_ >= count))
    throw InvalidArgument(
        text("[EmbeddingBag] expected a padding index in [", -count, ", ", count, "), got ", *padding_idx_));
  Tensor value = randn({count, features}, {.dtype = options.tensor.dtype, .device = options.tensor.device});
  if (padding_idx_) value.select(0, *padding_idx_).zero_();
  weight = Parameter(value);
}

Tensor EmbeddingBag::forward(const Tensor& index, const Tensor& offsets, const Tensor& per_sample_weights) const {
  return embedding_bag(weight, index,
                       {.mode = mode_,
                        .offsets = offsets,
                        .include_last_offset = include_last_offset_,
                        .per_sample_weights = per_sample_weights,
                        .padding_idx = padding_idx_});
}

}  // namespace lockstep::nn
