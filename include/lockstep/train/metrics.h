// Metrics: means over many batches, kept on the device. Adding to one enqueues work and never waits; the host learns
// the means when it asks, and then waits only for the work up to the question. One thread at a time.
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

/// A mean by name.
struct Mean {
  std::string name;
  double value = 0;  ///< The mean.
};

/// What a mean is made of: the sum of the values, each times its weight, and the sum of the weights.
struct MeanSum {
  std::string name;
  double total = 0;  ///< Of the values times their weights.
  double weight = 0;
};
/// total / weight of each: NaN where nothing was counted.
LOCKSTEP_API std::vector<Mean> means_of(const std::vector<MeanSum>& sums);

/// Means on their way to the host.
class LOCKSTEP_API PendingMeans {
 public:
  /// Waits for the work that was enqueued before Metrics::take(), not for what came after. Throws the errors of that
  /// work.
  std::vector<Mean> wait() const { return means_of(wait_for_sums()); }
  std::vector<MeanSum> wait_for_sums() const;  ///< As wait(), without dividing.

 private:
  friend class Metrics;
  PendingMeans(std::vector<std::string> names, std::vector<double> weights, std::vector<std::size_t> counted,
               Tensor sums, Stream stream);

  std::vector<std::string> names_;
  std::vector<double> weights_;
  std::vector<std::size_t> counted_;  // the names whose weights have a part on the device
  Tensor sums_;                       // float64: one for each name, then those parts
  Stream stream_;
  cuda::Event complete_;
};

/// Means over many batches: see the description of the file.
class LOCKSTEP_API Metrics {
 public:
  explicit Metrics(Device device);

  /// Adds the mean over the batch at hand: one element of any device and numeric dtype. `weight` is what it counts in
  /// the mean over batches, if that is not the batch's number of rows; a mean of weight 0 is ignored. Throws ShapeError
  /// for more elements than one, InvalidArgument for a weight that is negative or not finite.
  void add(std::string_view name, const Tensor& mean, std::optional<double> weight = {});
  /// The same of a mean that says its weight, which the host need not know.
  void add(std::string_view name, const WeightedMean& mean);
  /// For whoever feeds the batches: the rows of the one at hand.
  void set_rows(double rows) noexcept { rows_ = rows, counts_ = true; }
  /// The same for a batch of which only other processes have rows: what is added is left out.
  void set_rows_elsewhere() noexcept { counts_ = false; }

  bool empty() const noexcept { return sums_.empty(); }
  /// How often something was added under that name since the last take().
  std::int64_t additions_of(std::string_view name) const noexcept;
  /// The means so far. Begins anew.
  PendingMeans take();

  /// Sums and weights, on the CPU: waits for the device.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);  ///< Replaces what is there.
  /// The same as numbers.
  std::vector<MeanSum> sums() const;
  void set_sums(const std::vector<MeanSum>& sums);  ///< Replaces what is there.

 private:
  struct Sum {
    std::string name;
    Tensor total;  // float64, 0-dim
    double weight = 0;
    Tensor counted = {};  // what comes to the weight from the device, float64, 0-dim; undefined: nothing
    std::int64_t additions = 0;
  };
  Tensor on_device(const Tensor& x) const;
  Sum& sum(std::string_view name);

  Device device_;
  Stream reading_;  // where the host reads, beside the work that goes on
  std::vector<Sum> sums_;
  double rows_ = 1;
  bool counts_ = true;
};

}  // namespace lockstep::train
