#include "contract/batch.h"

#include <algorithm>
#include <random>

namespace lockstep::contract {

using data::RowRange;

ScatterOptions scatter_options(const Case& given, int devices) {
  ScatterOptions options{.dim = given.number("scatter_dim")};
  const std::string_view split = given["split"];
  if (split == "balanced") options.split = ScatterSplit::balanced;
  for (int d = 0; d < devices; ++d) {
    if (split == "weights") options.weights.push_back(1 + d % 2);
    if (split == "gap") options.weights.push_back((d + devices) % 2);  // two devices: 0, 1; three: 1, 0, 1
  }
  return options;
}

namespace {

std::vector<RowRange> rows_of_processes(const Case& given, Layout layout, std::int64_t rows) {
  const int processes = layout.processes, devices = layout.devices;
  const std::string_view share = given["share"];
  std::vector<RowRange> all(static_cast<std::size_t>(processes));
  const auto divide = [&](int first, int count, std::int64_t from) {
    for (int i = 0; i < count; ++i) {
      const RowRange range = data::BatchShare{.process = i, .processes = count, .devices = devices}.rows(rows - from);
      all[std::size_t(first + i)] = {from + range.first, range.count};
    }
  };
  if (share == "even") {
    divide(0, processes, 0);
  } else if (share == "none_last") {
    divide(0, processes - 1, 0);
    all.back() = {rows, 0};
  } else if (share == "none_first") {
    divide(1, processes - 1, 0);
  } else {
    all[0] = {0, (2 * rows + 2) / 3};
    divide(1, processes - 1, all[0].count);
  }
  return all;
}

}  // namespace

Batch batch_of(const Case& given, Layout layout, std::int64_t rows, std::uint64_t which, DType dtype) {
  std::mt19937_64 random(given.seed * 1000003 + which);
  const auto uniform = [&] { return double(random() >> 11) / double(1ull << 52) - 1; };
  const auto matrix = [&] {
    std::vector<double> values(std::size_t(rows * kFeatures));
    for (double& v : values) v = uniform();
    return from_host(values.data(), values.size(), kFloat64, {rows, kFeatures}).to(dtype);
  };
  Batch batch;
  batch.rows = rows;
  batch.x = matrix();
  if (given.is("loss", "mse")) {
    batch.y = matrix();
  } else {
    std::vector<std::int64_t> classes;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::uint64_t drawn = random();
      const bool is_padding = given.is("loss", "padding") && r > 0 && drawn % 3 == 0;
      classes.push_back(is_padding ? -100 : std::int64_t(drawn / 3 % kFeatures));
    }
    batch.y = tensor(classes);
  }
  batch.of_process = rows_of_processes(given, layout, rows);
  ScatterOptions scatter = scatter_options(given, layout.devices);
  const std::size_t devices(layout.devices);
  if (given.is("split", "chunk")) {
    // docs/many-hosts.md: as one process with all devices, if each process has the rows that it would give its devices.
    const std::int64_t ranks = std::int64_t(devices) * layout.processes, length = (rows + ranks - 1) / ranks;
    std::int64_t left = rows;
    bool as_one = true;
    for (const RowRange& range : batch.of_process) {
      const std::int64_t due = std::min(length * std::int64_t(devices), left);
      as_one = as_one && range.count == due;
      left -= due;
    }
    if (as_one) scatter.length = length;
  }
  for (const auto& [first, count] : batch.of_process) {
    std::int64_t at = first;
    batch.replicas.push_back(0);
    for (const std::int64_t size : shard_sizes(count, devices, scatter)) {
      batch.shards.push_back({at, size});
      at += size;
      batch.replicas.back() += size > 0;
    }
  }
  return batch;
}

}  // namespace lockstep::contract
