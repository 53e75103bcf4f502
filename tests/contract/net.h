// The module of a case. The model under test has the library's layers; the truth has the same parameters and buffers
// under the same names, and computes what depends on how rows are divided by plain operations, from a list of who had
// which rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/lockstep.h>

#include "contract/features.h"

namespace lockstep::contract {

inline constexpr std::int64_t kFeatures = 6;  // of a row, and classes
inline constexpr std::int64_t kHidden = 8;

/// Rows of the whole batch that one replica has.
struct Shard {
  std::int64_t first, count;
};

/// Whose rows are which in the next pass of the truth, on this thread: of all replicas of all processes, in order.
class TruthPass {
 public:
  explicit TruthPass(std::vector<Shard> shards);
  ~TruthPass();
  TruthPass(const TruthPass&) = delete;
  TruthPass& operator=(const TruthPass&) = delete;
  static const std::vector<Shard>& shards();

 private:
  std::vector<Shard> shards_;
  const std::vector<Shard>* outer_;
};

/// What a model gives: rows, or one number of them, or both; undefined where the case wants none.
struct Output {
  Tensor rows;                       ///< [rows, kFeatures]; with scatter_dim=1 transposed.
  Tensor value;                      ///< 0-dim.
  std::optional<WeightedMean> mean;  ///< Instead of the number, over rows of which some are padding.
  auto members() { return nn::members("rows", rows, "value", value, "mean", mean); }
};

class Net : public nn::Module<Net> {
 public:
  Net(const Case& given, bool is_truth);

  nn::Linear in, mid, out;
  nn::Dropout drop;
  std::optional<nn::Embedding> embedding;
  std::vector<nn::AnyModule> body;                    // [rows, kHidden] -> the same
  std::optional<nn::AnyModule> buffers, norm, extra;  // the same
  std::optional<nn::Buffer> scale;                    // requires a gradient

  auto members() {
    return nn::members("in", in, "mid", mid, "out", out, "drop", drop, "embedding", embedding, "body", body, "buffers",
                       buffers, "norm", norm, "extra", extra, "scale", scale);
  }
  /// x: [rows, kFeatures]; with scatter_dim=1 transposed, as y.
  Output forward(const Tensor& x, const Tensor& y, int step);

 private:
  Tensor branched(const Tensor& h, const Tensor& x, int step);

  Case case_;
  bool is_truth_;
};

/// Whether the case's loss is a mean over the rows that are no padding: then users say it as a WeightedMean.
bool is_weighted(const Case& given);
/// The losses of rows: their mean, or their sum. rows: [rows, kFeatures]. y: of the same shape, or classes [rows].
Tensor loss_of_rows(const Case& given, const Tensor& rows, const Tensor& y);
/// The number that "pair" adds.
Tensor value_of_rows(const Case& given, const Tensor& rows);

}  // namespace lockstep::contract
