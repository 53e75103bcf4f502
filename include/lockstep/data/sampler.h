// Samplers: the order in which a dataset's samples are read, and how often. All are values, and give the same order for
// the same epoch on every machine and standard library. Safe to read from several threads at once.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/distributed/world.h>

namespace lockstep::data {

/// indices(epoch) returns size() sample indices, for any epoch >= 0.
template <class S>
concept Sampler = requires(const S& sampler, std::int64_t epoch) {
  { sampler.size() } -> std::convertible_to<std::int64_t>;
  { sampler.indices(epoch) } -> std::convertible_to<std::vector<std::int64_t>>;
};

/// 0, 1, ... size - 1, in every epoch.
class LOCKSTEP_API SequentialSampler {
 public:
  /// Throws InvalidArgument for a negative size.
  explicit SequentialSampler(std::int64_t dataset_size);

  std::int64_t size() const noexcept { return size_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const;  ///< The order of an epoch.

 private:
  std::int64_t size_;
};

struct RandomSamplerOptions {
  std::uint64_t seed = 0;
  bool replacement = false;                      ///< Draw with replacement.
  std::optional<std::int64_t> num_samples = {};  ///< Default: the size of the dataset.
};

/// A new permutation in each epoch, determined by the seed and the epoch. If num_samples exceeds the dataset's size,
/// several permutations follow one another.
class LOCKSTEP_API RandomSampler {
 public:
  /// Throws InvalidArgument for a negative size or number, and for samples from an empty dataset.
  explicit RandomSampler(std::int64_t dataset_size, const RandomSamplerOptions& options = {});

  std::int64_t size() const noexcept { return num_samples_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const;  ///< The order of an epoch.

 private:
  std::int64_t dataset_size_;
  std::int64_t num_samples_;
  std::uint64_t seed_;
  bool replacement_;
};

struct WeightedRandomSamplerOptions {
  bool replacement = true;  ///< Draw with replacement.
  std::uint64_t seed = 0;
};

/// Draws index i with probability weights[i] / sum. Without replacement, the weight of a drawn index becomes 0.
class LOCKSTEP_API WeightedRandomSampler {
 public:
  /// Throws InvalidArgument if a weight is negative or not finite, if the sum of weights is 0 or not finite, if
  /// num_samples is negative, or, without replacement, if it exceeds the number of positive weights.
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                        const WeightedRandomSamplerOptions& options = {});

  std::int64_t size() const noexcept { return num_samples_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const;  ///< The order of an epoch.

 private:
  std::vector<double> weights_;
  std::int64_t num_samples_;
  WeightedRandomSamplerOptions options_;
};

struct DistributedSamplerOptions {
  int rank = 0;  ///< This process's rank.
  int world = 1;
  bool shuffle = true;     ///< A new order in each epoch.
  std::uint64_t seed = 0;  ///< Must be equal on every rank.
  bool drop_last = false;  ///< Drop the last samples instead of repeating the first ones.
};

/// The samples of one of `world` processes: positions rank, rank + world, ... of an order that is the same in all. All
/// processes get equally many samples: the order is padded with its beginning, or cut off if drop_last. Like
/// torch.utils.data.DistributedSampler, but with another permutation.
class LOCKSTEP_API DistributedSampler {
 public:
  /// Throws InvalidArgument for a negative size, and unless 0 <= rank < world.
  DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options);
  /// Takes rank and world from `world`; throws InvalidArgument if options set them too.
  DistributedSampler(std::int64_t dataset_size, const World& world, const DistributedSamplerOptions& options = {});

  std::int64_t size() const noexcept { return num_samples_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const;  ///< This process's part of the order of an epoch.

 private:
  std::int64_t dataset_size_;
  std::int64_t num_samples_;
  DistributedSamplerOptions options_;
};

}  // namespace lockstep::data
