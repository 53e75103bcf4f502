// The batches of a case, and their division between processes and devices.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/lockstep.h>

#include "contract/net.h"
#include "contract/run.h"

namespace lockstep::contract {

/// A batch, and the rows of each process and replica.
struct Batch {
  Tensor x, y;  // of all rows, on the CPU
  std::int64_t rows;
  std::vector<data::RowRange> of_process;
  std::vector<RowShard> shards;        // over all replicas of all processes
  std::vector<std::int64_t> replicas;  // by process: replicas that have rows

  std::int64_t all_replicas() const {
    std::int64_t sum = 0;
    for (const std::int64_t each : replicas) sum += each;
    return sum;
  }
};

/// The division of each process's rows over its devices.
ScatterOptions scatter_options(const Case& given, int devices);
/// Batch number `which` of the case, drawn from its seed.
Batch batch_of(const Case& given, Layout layout, std::int64_t rows, std::uint64_t which, DType dtype);

}  // namespace lockstep::contract
