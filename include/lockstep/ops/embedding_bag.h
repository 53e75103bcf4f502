// Rows of an embedding joined bag by bag.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/core/choice.h>
#include <lockstep/ops/index.h>

namespace lockstep {

/// What a bag of rows becomes.
enum class EmbeddingBagMode { sum, mean, max };

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::EmbeddingBagMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"sum", "mean", "max"};
};

namespace lockstep {

struct EmbeddingBagOptions {
  Choice<EmbeddingBagMode> mode = EmbeddingBagMode::mean;  ///< What a bag becomes.
  /// Where each bag begins in an index of one dimension, from 0 on, not decreasing: int32 or int64 [bags].
  Tensor offsets = {};
  bool include_last_offset = false;  ///< The last offset is where the last bag ends.
  Tensor per_sample_weights = {};    ///< Of the index's shape and the weight's dtype; with EmbeddingBagMode::sum only.
  std::optional<std::int64_t> padding_idx = {};  ///< Such an index counts as not there; negative: from the end.
};
/// The sum, mean or elementwise greatest of the rows of weight [count, features] that each bag of indices names:
/// [bags, features], 0 for an empty bag. index: [bags, size], or one dimension with offsets. Differentiable in weight
/// and per_sample_weights. For EmbeddingBagMode::max with offsets, the host waits for the device.
LOCKSTEP_API Tensor embedding_bag(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& options = {});

}  // namespace lockstep
