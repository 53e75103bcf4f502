// BatchShare: the rows of each batch that one of several processes gets. A value type.
#pragma once

#include <cstdint>

#include <lockstep/core/export.h>

namespace lockstep::data {

/// Rows [first, first + count) of a batch.
struct RowRange {
  std::int64_t first = 0;  ///< The first row.
  std::int64_t count = 0;  ///< Number of rows.

  bool operator==(const RowRange&) const = default;
};

/// The rows that one process's devices would get if a single process with all devices divided the batch. Each device
/// has ceil(B / (processes * devices)) rows of a batch of B, in order of the processes; the last devices have fewer or
/// none (ScatterSplit::chunk). By default, all rows.
struct LOCKSTEP_API BatchShare {
  int process = 0;    ///< This process's number, from 0.
  int processes = 1;  ///< Number of processes.
  int devices = 1;    ///< Devices per process.

  /// Throws InvalidArgument unless 0 <= process < processes and devices >= 1.
  void check() const;
  bool is_all() const noexcept { return processes == 1; }  ///< True if the share is the whole batch.
  /// This process's rows in a batch of `total` rows, total >= 0.
  RowRange rows(std::int64_t total) const noexcept;

  bool operator==(const BatchShare&) const = default;
};

}  // namespace lockstep::data
