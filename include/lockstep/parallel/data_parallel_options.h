// Options of DataParallel: the devices, and how batches, outputs and parameters are divided between them.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/distributed/world.h>
#include <lockstep/parallel/gather.h>
#include <lockstep/parallel/gradient_buckets.h>
#include <lockstep/parallel/process_pass.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/parallel/shard.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

/// Numbers of GPUs. Unlike std::vector<int>, it does not accept {"cuda:0", "cuda:1"} as a pair of iterators.
class DeviceIds : public std::vector<int> {
 public:
  DeviceIds() = default;
  DeviceIds(std::initializer_list<int> ids) : std::vector<int>(ids) {}
  template <std::same_as<std::vector<int>> Ids>             // not deduced from braces
  DeviceIds(Ids ids) : std::vector<int>(std::move(ids)) {}  ///< The numbers in a vector.
};

struct DataParallelOptions {
  DeviceIds device_ids = {};                 ///< In any order; empty for all visible GPUs.
  std::optional<Device> output_device = {};  ///< The device on which outputs are gathered; by default the first one.
  ScatterOptions scatter = {};               ///< How batches are divided.
  Gather gather = Gather::concatenate;       ///< How outputs are joined.
  BucketOptions buckets = {};                ///< Sizes of gradient buckets.
  Shard shard = Shard::none;                 ///< The level of sharding.
  World world = {};  ///< The processes that train the model together, each on the same number of devices of its own.
  ProcessLoss loss = ProcessLoss::mean;  ///< The kind of loss, if several processes train.
};

}  // namespace lockstep
