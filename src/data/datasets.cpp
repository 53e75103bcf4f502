#include <lockstep/data/datasets.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <lockstep/core/error.h>
#include <lockstep/data/sampler.h>

#include "core/expect.h"

namespace lockstep::data::detail {

void check_index(const char* op, std::int64_t index, std::int64_t size) {
  expect(index >= 0 && index < size, op, "an index in [0, ", size, "), got ", index);
}

void check_indices(std::span<const std::int64_t> indices, std::int64_t size) {
  for (const std::int64_t index : indices) check_index("Subset", index, size);
}

std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, std::span<const std::int64_t> lengths,
                                                     std::uint64_t seed) {
  std::int64_t left = size;
  for (const std::int64_t length : lengths) {
    expect(length >= 0, "random_split", "lengths >= 0, got ", length);
    expect(length <= left, "random_split", "lengths that sum to ", size, ", got more");
    left -= length;
  }
  expect(left == 0, "random_split", "lengths that sum to ", size, ", got ", size - left);
  const std::vector<std::int64_t> order = RandomSampler(size, {.seed = seed}).indices(0);
  std::vector<std::vector<std::int64_t>> pieces;
  auto at = order.begin();
  for (const std::int64_t length : lengths) {
    pieces.emplace_back(at, at + length);
    at += length;
  }
  return pieces;
}

std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, std::span<const double> shares,
                                                     std::uint64_t seed) {
  double sum = 0;
  for (const double share : shares) {
    expect(share >= 0, "random_split", "shares >= 0, got ", share);
    sum += share;
  }
  expect(std::abs(sum - 1) < 1e-6, "random_split", "lengths that are integers, or shares that sum to 1, got ", sum);
  std::vector<std::int64_t> lengths;
  for (const double share : shares)
    lengths.push_back(std::min(size, std::int64_t(std::floor(share * double(size) + 1e-9))));
  std::int64_t left = size - std::accumulate(lengths.begin(), lengths.end(), std::int64_t(0));
  for (std::size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return split_indices(size, lengths, seed);
}

std::size_t part_of(std::int64_t index, std::span<const std::int64_t> ends) {
  return std::size_t(std::ranges::upper_bound(ends, index) - ends.begin());
}

}  // namespace lockstep::data::detail
