// Metrics: means over many batches, kept on the device. add() enqueues work and never waits. Reading the means waits
// only for the work that was enqueued before snapshot_and_reset(). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/ops/weighted_mean.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/state_dict.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::train {

/// A named mean.
struct Mean {
  std::string name;
  double value = 0;  ///< The mean.
};

/// The parts of a mean: the weighted sum of the values, and the sum of the weights.
struct MeanSum {
  std::string name;
  double total = 0;  ///< The sum of value * weight.
  double weight = 0;
};
/// total / weight of each; NaN if the weight is 0.
LOCKSTEP_API std::vector<Mean> means_of(const std::vector<MeanSum>& sums);

/// Means that are being copied to the host.
class LOCKSTEP_API PendingMeans {
 public:
  /// Waits for the work that was enqueued before Metrics::snapshot_and_reset(), not for later work. Throws the errors
  /// of that work.
  std::vector<Mean> wait() const { return means_of(wait_for_sums()); }
  std::vector<MeanSum> wait_for_sums() const;  ///< As wait(), without the division.

 private:
  friend class Metrics;
  PendingMeans(std::vector<std::string> names, std::vector<double> weights, std::vector<std::size_t> counted,
               Tensor sums, Stream stream);

  std::vector<std::string> names_;
  std::vector<double> weights_;
  std::vector<std::size_t> counted_;  // indices of the names that have part of their weight on the device
  Tensor sums_;                       // float64: one per name, then the weights on the device
  Stream stream_;
  cuda::Event complete_;
};

/// Means over many batches; the top of this file says more.
class LOCKSTEP_API Metrics {
 public:
  explicit Metrics(Device device);

  /// Adds a mean over the current batch: one element of any device and numeric dtype. `weight` is its weight in the
  /// mean over batches, by default the batch's number of rows; a mean of weight 0 is ignored. Throws ShapeError for
  /// more than one element, InvalidArgument for a weight that is negative or not finite.
  void add(std::string_view name, const Tensor& mean, std::optional<double> weight = {});
  /// Adds a mean that has its own weight, on the device.
  void add(std::string_view name, const WeightedMean& mean);
  /// Sets the rows of the current batch. Called by the code that iterates over the batches.
  void set_rows(double rows) noexcept { rows_ = rows, counts_ = true; }
  /// Says that this process has no rows of the current batch: add() then ignores the mean.
  void ignore_batch() noexcept { counts_ = false; }

  bool empty() const noexcept { return sums_.empty(); }
  /// The number of calls of add() with that name since the last snapshot_and_reset().
  std::int64_t additions_of(std::string_view name) const noexcept;
  /// Starts to copy the means so far to the host, and resets them.
  PendingMeans snapshot_and_reset();

  /// Sums and weights, on the CPU; waits for the device.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);  ///< Replaces all means.
  /// The content of state_dict() as numbers.
  std::vector<MeanSum> sums() const;
  void set_sums(const std::vector<MeanSum>& sums);  ///< Replaces all means.

 private:
  struct Sum {
    std::string name;
    Tensor total;  // float64, 0-dim
    double weight = 0;
    Tensor counted = {};  // the part of the weight that is on the device, float64, 0-dim; undefined if there is none
    std::int64_t additions = 0;
  };
  Tensor on_device(const Tensor& x) const;
  Sum& sum(std::string_view name);

  Device device_;
  Stream reading_;  // copies means to the host, while the current stream continues with later work
  std::vector<Sum> sums_;
  double rows_ = 1;
  bool counts_ = true;
};

}  // namespace lockstep::train
