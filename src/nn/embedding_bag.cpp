#include <lockstep/nn/embedding_bag.h>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"

namespace lockstep::nn {

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t features, const EmbeddingBagLayerOptions& options)
    : mode_(options.mode), include_last_offset_(options.include_last_offset), padding_index_(options.padding_index) {
  if (count < 0 || features < 0)
    throw InvalidArgument(text("[EmbeddingBag] expected sizes of at least 0, got ", count, " and ", features));
  if (padding_index_ && (*padding_index_ < -count || *padding_index_ >= count))
    throw InvalidArgument(
        text("[EmbeddingBag] expected a padding index in [", -count, ", ", count, "), got ", *padding_index_));
  Tensor value = randn({count, features}, {.dtype = options.tensor.dtype, .device = options.tensor.device});
  if (padding_index_) value.select(0, *padding_index_).zero_();
  weight = Parameter(value);
}

Tensor EmbeddingBag::forward(const Tensor& index, const Tensor& offsets, const Tensor& per_sample_weights) const {
  return embedding_bag(weight, index,
                       {.mode = mode_,
                        .offsets = offsets,
                        .include_last_offset = include_last_offset_,
                        .per_sample_weights = per_sample_weights,
                        .padding_index = padding_index_});
}

}  // namespace lockstep::nn
