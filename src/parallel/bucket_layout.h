// How gradients are divided into buckets, and buckets between devices.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/parallel/gradient_buckets.h>

#include "autograd/node.h"

namespace lockstep {

/// Gradients of one dtype that are reduced together. Each begins at a multiple of 64 elements; their number in all is a
/// multiple of 64 for each device, so that the devices' shares are equal and aligned too. Between gradients and after
/// the last are zeros.
struct BucketMemory {
  std::vector<std::size_t> entries;  ///< The numbers of their parameters.
  std::vector<Tensor> flats;         ///< By device.
  std::vector<std::size_t> counts;   ///< Of elements, by device, if the devices divide the bucket: all equal.
};

/// Where the gradient of one parameter on one device is to be.
struct GradientSlot {
  std::size_t entry;
  autograd::Meta* meta;  ///< The parameter's, on that device.
  Tensor memory;
  std::optional<autograd::Share> share;
};

struct BucketLayout {
  std::vector<BucketMemory> buckets;
  std::vector<GradientSlot> slots;
};

/// The numbers of the parameters in each bucket that lay_out_buckets() would make.
std::vector<std::vector<std::size_t>> divide_into_buckets(std::span<const std::vector<Tensor>> parameters,
                                                          std::span<const std::size_t> order,
                                                          const BucketOptions& options);

/// Buckets for parameters, each given by device, in that order: each of gradients of no more bytes than the options
/// say, unless a single one has more. Present gradients are copied to their slots; those that were summed and divided
/// keep only their shares. Nothing else changes. Throws OutOfMemory.
BucketLayout lay_out_buckets(std::span<const std::vector<Tensor>> parameters, std::span<const std::size_t> order,
                             const BucketOptions& options);

}  // namespace lockstep
