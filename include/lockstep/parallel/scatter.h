// Scatter: splits a batch over devices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <lockstep/runtime/device.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep {

/// How many rows each device gets.
enum class ScatterSplit : std::uint8_t {
  chunk,     ///< ceil(B/N) each, as chunk() does: 10 over 3 gives 4, 4, 2; 4 over 3 gives 2, 2 and uses two devices.
  balanced,  ///< Sizes differ by at most one.
};

struct ScatterOptions {
  std::int64_t dim = 0;
  ScatterSplit split = ScatterSplit::chunk;  ///< How rows are divided.
  std::int64_t length = 0;                   ///< Rows of each chunk but the last; 0: ceil(B/N).
  std::vector<double> weights = {};          ///< One for each device: divides rows in proportion, in place of `split`.
};

/// The sizes of the shards of `rows` rows over at most `devices` devices. At least one shard; empty shards at the end
/// are left out. (Weights can leave an empty shard before others: shard i is device i's.) Throws InvalidArgument unless
/// weights are one finite number >= 0 for each device, not all 0.
LOCKSTEP_API std::vector<std::int64_t> shard_sizes(std::int64_t rows, std::size_t devices,
                                                   const ScatterOptions& options);

/// shards[k][i]: shard i of tensor k, on device i. Differentiable. A shard that is already on its device is a view.
/// Throws ShapeError naming a tensor that is 0-dim or whose size along dim differs from the first tensor's.
struct Shards {
  std::vector<std::int64_t> rows;            ///< Rows of each shard.
  std::vector<std::vector<Tensor>> tensors;  ///< By tensor, then by shard.
};
/// See Shards.
LOCKSTEP_API Shards scatter_tensors(std::span<const NamedTensor> tensors, std::span<const Device> devices,
                                    const ScatterOptions& options);

/// Splits all tensors in `value`; other parts go to every shard unchanged. Errors call the value `name`. A value
/// without tensors has one shard. Does not compile for parts that may hide tensors (kHidesNoTensors).
template <class T>
std::vector<T> scatter(const T& value, std::span<const Device> devices, const ScatterOptions& options = {},
                       const std::string& name = "input", std::vector<std::int64_t>* rows = nullptr) {
  const MemberPath whole(name);
  std::vector<NamedTensor> found;
  T seen = value;
  for_each_tensor(seen, whole, [&](const MemberPath& path, Tensor& tensor) {
    found.push_back({path.expression(), tensor});
  });
  const Shards shards = scatter_tensors(found, devices, options);
  if (rows) *rows = shards.rows;
  std::vector<T> result(shards.rows.size(), value);
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::size_t k = 0;
    for_each_tensor(result[i], whole, [&](const MemberPath&, Tensor& tensor) { tensor = shards.tensors[k++][i]; });
  }
  return result;
}

}  // namespace lockstep
