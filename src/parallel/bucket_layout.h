// How gradients are divided into buckets, and buckets between devices.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/parallel/gradient_buckets.h>

#include "autograd/replicated_parameter.h"

namespace lockstep {

/// Gradients of one dtype that are reduced together. Each begins at a multiple of 64 elements; their number in all is a
/// multiple of 64 for each device of all processes, so that the shards are equal and aligned too. Between gradients and
/// after the last are zeros.
struct BucketMemory {
  std::vector<std::size_t> entries;  ///< The numbers of their parameters.
  std::vector<Tensor> flats;         ///< By device.
  std::vector<std::size_t> counts;   ///< Of elements, by rank of all processes, if the bucket is sharded: all equal.
};

/// Where the gradient of one parameter is to be, by device.
struct GradientSlots {
  std::vector<Tensor> memory;
  std::vector<autograd::Shard> shards;  ///< Of the parameter, by rank of all processes; none if it is not sharded.
};

struct BucketLayout {
  std::vector<BucketMemory> buckets;
  std::vector<GradientSlots> slots;  ///< By parameter.
};

/// The numbers of the parameters in each bucket that lay_out_buckets() would make.
std::vector<std::vector<std::size_t>> divide_into_buckets(std::span<const std::vector<Tensor>> parameters,
                                                          std::span<const std::size_t> order,
                                                          const BucketOptions& options);

/// Buckets for parameters, each given by device, in that order: each of gradients of no more bytes than the options
/// say, unless a single one has more. `processes` have as many devices each. All of their memory is zero. Changes
/// nothing else. Throws OutOfMemory.
BucketLayout lay_out_buckets(std::span<const std::vector<Tensor>> parameters, std::span<const std::size_t> order,
                             const BucketOptions& options, std::size_t processes = 1);

}  // namespace lockstep
