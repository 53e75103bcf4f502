// How gradients are divided into buckets, and buckets between devices.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/parallel/gradient_buckets.h>

#include "autograd/replicated_parameter.h"

namespace lockstep {

/// Gradients of one dtype that are reduced together. Each begins at a multiple of 64 elements. The padded size is a
/// multiple of 64 elements times the number of devices of all processes, so that the shards are equal and aligned too.
/// The padding between and after the gradients is zero; from Shard::gradients on it is indeterminate.
struct BucketMemory {
  std::vector<std::size_t> entries;  ///< The numbers of the parameters whose gradients are in the bucket.
  std::vector<std::int64_t> begins;  ///< The offset of each of these gradients, in elements.
  std::vector<Tensor> flats;         ///< The bucket's memory, by device.
  std::vector<std::size_t> counts;   ///< If sharded: elements of each shard, by rank of all processes; all equal.
};

/// The memory of one parameter's gradient, by device.
struct GradientSlots {
  std::vector<Tensor> memory;
  std::vector<autograd::ShardRange>
      shards;  ///< Shards of the parameter, by rank of all processes; empty if not sharded.
};

struct BucketLayout {
  std::vector<BucketMemory> buckets;
  std::vector<GradientSlots> slots;  ///< By parameter.
};

/// in_places(): the elements that a gradient of `elements` elements takes in a bucket, with its padding.
/// padded_bucket(): the size of a bucket whose padded gradients have `elements` elements in all; `ranks` is the number
/// of devices of all processes.
std::size_t in_places(std::int64_t elements) noexcept;
std::size_t padded_bucket(std::size_t elements, std::size_t ranks) noexcept;

/// The numbers of the parameters in each bucket that lay_out_buckets() would make.
std::vector<std::vector<std::size_t>> divide_into_buckets(std::span<const std::vector<Tensor>> parameters,
                                                          std::span<const std::size_t> order,
                                                          const BucketOptions& options);

/// Makes the flat array of a bucket on device number d, of that many elements: zeros.
using MakeFlat = std::function<Tensor(std::size_t d, Device device, std::int64_t elements, DType dtype)>;
Tensor make_zeros(std::size_t d, Device device, std::int64_t elements, DType dtype);

/// Lays out buckets for the parameters in the given order; each parameter is given by device. The gradients of a bucket
/// take at most the options' number of bytes, unless a single gradient is larger. All `processes` have equally many
/// devices. The new memory is zeroed. Changes nothing else. Throws OutOfMemory.
BucketLayout lay_out_buckets(std::span<const std::vector<Tensor>> parameters, std::span<const std::size_t> order,
                             const BucketOptions& options, Shard shard, std::size_t processes = 1,
                             const MakeFlat& make_flat = make_zeros);

}  // namespace lockstep
