#include <lockstep/parallel/scatter.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"

namespace lockstep {
namespace {

std::vector<std::int64_t> weighted_sizes(std::int64_t rows, std::size_t devices, const std::vector<double>& weights) {
  double total = 0;
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0)
      throw InvalidArgument(text("[scatter] expected weights that are finite and at least 0, got ", weight));
    total += weight;
  }
  if (weights.size() != devices || !(total > 0) || !std::isfinite(total))
    throw InvalidArgument(text("[scatter] expected one weight for each of ", devices,
                               " devices, with a finite sum above 0, got ", weights.size(), " with the sum ", total));
  // Every device gets its share rounded down. The rows that are left go, one each, to the devices with the largest
  // remainders; among equal remainders, to the first devices.
  std::vector<std::int64_t> sizes(devices);
  std::vector<double> remainders(devices);
  std::vector<std::size_t> order(devices);
  std::int64_t left = rows;
  for (std::size_t i = 0; i < devices; ++i) {
    const double share = double(rows) * (weights[i] / total);
    sizes[i] = std::min(std::int64_t(share), left);
    remainders[i] = share - double(sizes[i]);
    left -= sizes[i];
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; ++i, --left) ++sizes[order[i % devices]];
  while (sizes.size() > 1 && sizes.back() == 0) sizes.pop_back();
  return sizes;
}

}  // namespace

std::vector<std::int64_t> shard_sizes(std::int64_t rows, std::size_t devices, const ScatterOptions& options) {
  if (rows < 0 || devices == 0)
    throw InvalidArgument(text("[scatter] expected at least 0 rows and one device, got ", rows, " and ", devices));
  const auto n = std::int64_t(devices);
  if (!options.weights.empty()) return weighted_sizes(rows, devices, options.weights);
  std::vector<std::int64_t> sizes;
  if (options.split == ScatterSplit::balanced) {
    for (std::int64_t i = 0; i < std::min(rows, n); ++i) sizes.push_back(rows / n + (i < rows % n));
  } else {
    const std::int64_t least = rows / n + (rows % n != 0), length = options.length > 0 ? options.length : least;
    if (length < least)
      throw InvalidArgument(text("[scatter] expected a length of at least ", least, " for ", rows, " rows over ", n,
                                 " devices, got ", length));
    for (std::int64_t from = 0; from < rows; from += length) sizes.push_back(std::min(length, rows - from));
  }
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

Shards scatter_tensors(std::span<const NamedTensor> tensors, std::span<const Device> devices,
                       const ScatterOptions& options) {
  if (devices.empty()) throw InvalidArgument("[scatter] expected at least one device, got none");
  Shards shards;
  if (tensors.empty()) {
    shards.rows = {0};
    return shards;
  }
  const auto dim_of = [&](const NamedTensor& named) {
    if (named.tensor.dim() == 0)
      throw ShapeError(text("[scatter] expected tensors with a batch dimension, got a 0-dim one as ", named.name));
    const int rank = named.tensor.dim();
    if (options.dim < -rank || options.dim >= rank)
      throw ShapeError(text("[scatter] expected tensors with dimension ", options.dim, ", got shape ",
                            named.tensor.sizes(), " as ", named.name));
    return wrap_dim("scatter", options.dim, rank);
  };
  const std::int64_t rows = tensors[0].tensor.size(dim_of(tensors[0]));
  for (const NamedTensor& named : tensors)
    if (named.tensor.size(dim_of(named)) != rows)
      throw ShapeError(text("[scatter] expected ", rows, " rows along dimension ", options.dim, " as in ",
                            tensors[0].name, ", got shape ", named.tensor.sizes(), " as ", named.name));
  shards.rows = shard_sizes(rows, devices.size(), options);
  for (const NamedTensor& named : tensors) {
    std::vector<Tensor>& parts = shards.tensors.emplace_back();
    std::int64_t from = 0;
    for (std::size_t i = 0; i < shards.rows.size(); ++i) {
      const Tensor part =
          shards.rows[i] == rows ? named.tensor : named.tensor.narrow(options.dim, from, shards.rows[i]);
      parts.push_back(part.to(devices[i]));
      from += shards.rows[i];
    }
  }
  return shards;
}

}  // namespace lockstep
