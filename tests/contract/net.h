// The module of a case. The model under test has the library's layers; the truth has the same parameters and buffers
// under the same names, and computes the parts that depend on the division of rows by plain operations, from a list of
// each replica's rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/lockstep.h>

#include "contract/features.h"

namespace lockstep::contract {

inline constexpr std::int64_t kFeatures = 6;  // of a row; also the number of classes
inline constexpr std::int64_t kHidden = 8;

/// One replica's rows of the whole batch.
struct RowShard {
  std::int64_t first, count;
};

/// Sets the shards for the next pass of the truth on this thread: those of all replicas of all processes, in order.
class TruthPass {
 public:
  explicit TruthPass(std::vector<RowShard> shards);
  ~TruthPass();
  TruthPass(const TruthPass&) = delete;
  TruthPass& operator=(const TruthPass&) = delete;
  static const std::vector<RowShard>& shards();

 private:
  std::vector<RowShard> shards_;
  const std::vector<RowShard>* outer_;
};

/// The output of a model: rows, or one number for them, or both; parts that the case does not use are undefined.
struct Output {
  Tensor rows;                       ///< [rows, kFeatures]; with scatter_dim=1 transposed.
  Tensor value;                      ///< 0-dim.
  std::optional<WeightedMean> mean;  ///< Instead of `value`, if some rows are padding.
  auto members() { return nn::members("rows", rows, "value", value, "mean", mean); }
};

class Net : public nn::Module<Net> {
 public:
  Net(const Case& given, bool is_truth);

  nn::Linear in, mid, out;
  nn::Dropout drop;
  std::optional<nn::Embedding> embedding;
  std::vector<nn::AnyModule> body;                    // [rows, kHidden] -> [rows, kHidden]
  std::optional<nn::AnyModule> buffers, norm, extra;  // [rows, kHidden] -> [rows, kHidden]
  std::optional<nn::Buffer> scale;                    // requires a gradient

  auto members() {
    return nn::members("in", in, "mid", mid, "out", out, "drop", drop, "embedding", embedding, "body", body, "buffers",
                       buffers, "norm", norm, "extra", extra, "scale", scale);
  }
  /// x: [rows, kFeatures]; with scatter_dim=1 transposed, like y.
  Output forward(const Tensor& x, const Tensor& y, int step);

 private:
  Tensor branched(const Tensor& h, const Tensor& x, int step);

  Case case_;
  bool is_truth_;
};

/// True if the case's loss is a mean over the rows that are not padding, which users compute as a WeightedMean.
bool is_weighted(const Case& given);
/// The mean or the sum of the rows' losses. rows: [rows, kFeatures]. y: of the same shape, or classes [rows].
Tensor loss_of_rows(const Case& given, const Tensor& rows, const Tensor& y);
/// The additional number of where=pair.
Tensor value_of_rows(const Case& given, const Tensor& rows);

}  // namespace lockstep::contract
