// Rows of an embedding, summed, averaged or maximized bag by bag.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/core/choice.h>
#include <lockstep/ops/index.h>

namespace lockstep {

/// How the rows of a bag are combined.
enum class EmbeddingBagMode { sum, mean, max };

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::EmbeddingBagMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"sum", "mean", "max"};
};

namespace lockstep {

struct EmbeddingBagOptions {
  Choice<EmbeddingBagMode> mode = EmbeddingBagMode::mean;  ///< How the rows of a bag are combined.
  /// Only for a 1-dim index: the position in the index where each bag starts. The first is 0, and positions do not
  /// decrease. int32 or int64 [bags].
  Tensor offsets = {};
  bool include_last_offset = false;  ///< The last offset is the end of the last bag.
  Tensor per_sample_weights = {};    ///< The index's shape, the weight's dtype; only with EmbeddingBagMode::sum.
  std::optional<std::int64_t> padding_idx = {};  ///< Indices equal to it are skipped. Negative: counts from the end.
};
/// For each bag of indices, the sum, mean or elementwise maximum of the rows of weight [count, features] at these
/// indices: [bags, features], 0 for an empty bag. index: [bags, size], or 1-dim with offsets. Differentiable in weight
/// and per_sample_weights. For EmbeddingBagMode::max with offsets, the host waits for the device.
LOCKSTEP_API Tensor embedding_bag(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& options = {});

}  // namespace lockstep
