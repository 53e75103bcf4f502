// EmbeddingBag: rows of an embedding, reduced bag by bag. (Embedding is in layers.h.)
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/module.h>
#include <lockstep/ops/embedding_bag.h>

namespace lockstep::nn {

struct EmbeddingBagLayerOptions {
  Choice<EmbeddingBagMode> mode = EmbeddingBagMode::mean;  ///< How a bag's rows are reduced.
  bool include_last_offset = false;                ///< True: the last offset is the number of indices.
  std::optional<std::int64_t> padding_idx = {};  ///< The row that is initially 0, left out of bags and not trained.
  TensorOptions tensor = {};                       ///< Device and dtype of the weight.
};

/// embedding_bag() with a weight [count, features], initially normal with variance 1.
class LOCKSTEP_API EmbeddingBag : public Module<EmbeddingBag> {
 public:
  /// Throws InvalidArgument for negative sizes and a padding index out of range.
  EmbeddingBag(std::int64_t count, std::int64_t features, const EmbeddingBagLayerOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(EmbeddingBag);

  Parameter weight;

  auto members() { return nn::members("weight", weight); }
  /// index: [bags, size], or [indices] with offsets [bags].
  Tensor forward(const Tensor& index, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;

 private:
  EmbeddingBagMode mode_;
  bool include_last_offset_;
  std::optional<std::int64_t> padding_idx_;
};

}  // namespace lockstep::nn
