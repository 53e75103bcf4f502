#include <lockstep/data/sampler.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include <lockstep/core/error.h>

#include "core/expect.h"
#include "data/random_bits.h"

namespace lockstep::data {
namespace {

using Indices = std::vector<std::int64_t>;

void check_epoch(const char* op, std::int64_t epoch) { expect(epoch >= 0, op, "an epoch >= 0, got ", epoch); }

std::int64_t check_count(const char* op, const char* what, std::int64_t count) {
  expect(count >= 0, op, what, " >= 0, got ", count);
  return count;
}

Indices in_order(std::int64_t count) {
  Indices order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t(0));
  return order;
}

// Fisher-Yates shuffle of the first `count` places: draw i decides place i, so `count` draws suffice.
void shuffle_front(Indices& order, std::int64_t count, RandomBits& random) {
  const auto size = std::uint64_t(order.size());
  for (std::uint64_t i = 0; i < std::uint64_t(count); ++i) std::swap(order[i], order[i + random.below(size - i)]);
}

// Sums of weights over the subtrees of a complete binary tree: a draw or a change takes log2(count) steps. Each sum is
// recomputed from its two children, so removing weights does not accumulate rounding errors.
class WeightTree {
 public:
  explicit WeightTree(const std::vector<double>& weights)
      : leaves_(std::bit_ceil(weights.size())), sums_(2 * leaves_, 0.0) {
    std::copy(weights.begin(), weights.end(), sums_.begin() + std::ptrdiff_t(leaves_));
    for (std::size_t node = leaves_ - 1; node > 0; --node) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

  /// Returns the leaf at the fraction `position` of the total, 0 <= position < 1. If the total is positive, this leaf
  /// has a positive weight.
  std::int64_t find(double position) const {
    double left_over = position * sums_[1];
    std::size_t node = 1;
    while (node < leaves_) {
      const double left = sums_[2 * node];
      const bool go_right = left_over >= left && sums_[2 * node + 1] > 0;
      if (go_right) left_over -= left;
      node = 2 * node + std::size_t(go_right);
    }
    return std::int64_t(node - leaves_);
  }

  void remove(std::int64_t leaf) {
    std::size_t node = leaves_ + std::size_t(leaf);
    sums_[node] = 0;
    while ((node /= 2) > 0) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

 private:
  std::size_t leaves_;
  std::vector<double> sums_;
};

DistributedSamplerOptions of_process(const World& world, DistributedSamplerOptions options) {
  expect(options.rank == 0 && options.world == 1, "DistributedSampler",
         "a World or .rank and .world, got both: a World, and rank ", options.rank, " of ", options.world);
  options.rank = world.rank().value();
  options.world = world.size();
  return options;
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t dataset_size)
    : size_(check_count("SequentialSampler", "a dataset size", dataset_size)) {}

Indices SequentialSampler::indices(std::int64_t epoch) const {
  check_epoch("SequentialSampler", epoch);
  return in_order(size_);
}

RandomSampler::RandomSampler(std::int64_t dataset_size, const RandomSamplerOptions& options)
    : dataset_size_(check_count("RandomSampler", "a dataset size", dataset_size)),
      num_samples_(check_count("RandomSampler", "num_samples", options.num_samples.value_or(dataset_size))),
      seed_(options.seed),
      replacement_(options.replacement) {
  expect(dataset_size_ > 0 || num_samples_ == 0, "RandomSampler", "num_samples 0 for an empty dataset, got ",
         num_samples_);
}

Indices RandomSampler::indices(std::int64_t epoch) const {
  check_epoch("RandomSampler", epoch);
  RandomBits random(seed_, epoch);
  Indices drawn;
  drawn.reserve(static_cast<std::size_t>(num_samples_));
  if (replacement_) {
    for (std::int64_t i = 0; i < num_samples_; ++i)
      drawn.push_back(std::int64_t(random.below(std::uint64_t(dataset_size_))));
    return drawn;
  }
  while (std::int64_t(drawn.size()) < num_samples_) {
    const std::int64_t count = std::min(dataset_size_, num_samples_ - std::int64_t(drawn.size()));
    Indices order = in_order(dataset_size_);
    shuffle_front(order, count, random);
    drawn.insert(drawn.end(), order.begin(), order.begin() + count);
  }
  return drawn;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                                             const WeightedRandomSamplerOptions& options)
    : weights_(std::move(weights)),
      num_samples_(check_count("WeightedRandomSampler", "num_samples", num_samples)),
      options_(options) {
  double sum = 0;
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    expect(weights_[i] >= 0 && std::isfinite(weights_[i]), "WeightedRandomSampler", "finite weights >= 0, got ",
           weights_[i], " at index ", i);
    sum += weights_[i];
    positive += weights_[i] > 0;
  }
  expect(sum > 0 && std::isfinite(sum), "WeightedRandomSampler", "weights with a positive, finite sum, got ", sum);
  expect(options_.replacement || num_samples_ <= positive, "WeightedRandomSampler", "at most ", positive,
         " samples without replacement, one for each positive weight, got ", num_samples_);
}

Indices WeightedRandomSampler::indices(std::int64_t epoch) const {
  check_epoch("WeightedRandomSampler", epoch);
  RandomBits random(options_.seed, epoch);
  WeightTree tree(weights_);
  Indices drawn;
  drawn.reserve(static_cast<std::size_t>(num_samples_));
  for (std::int64_t i = 0; i < num_samples_; ++i) {
    drawn.push_back(tree.find(random.unit()));
    if (!options_.replacement) tree.remove(drawn.back());
  }
  return drawn;
}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, const DistributedSamplerOptions& options)
    : dataset_size_(check_count("DistributedSampler", "a dataset size", dataset_size)), options_(options) {
  expect(options.world >= 1 && options.rank >= 0 && options.rank < options.world, "DistributedSampler",
         "0 <= rank < world, got rank ", options.rank, " of ", options.world);
  num_samples_ = dataset_size / options.world;
  if (!options.drop_last && dataset_size % options.world != 0) ++num_samples_;
}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, const World& world,
                                       const DistributedSamplerOptions& options)
    : DistributedSampler(dataset_size, of_process(world, options)) {}

Indices DistributedSampler::indices(std::int64_t epoch) const {
  check_epoch("DistributedSampler", epoch);
  const Indices order =
      options_.shuffle ? RandomSampler(dataset_size_, {.seed = options_.seed}).indices(epoch) : in_order(dataset_size_);
  Indices share;
  share.reserve(static_cast<std::size_t>(num_samples_));
  for (std::int64_t i = 0; i < num_samples_; ++i)
    share.push_back(order[static_cast<std::size_t>((options_.rank + i * options_.world) % dataset_size_)]);
  return share;
}

}  // namespace lockstep::data
