// BatchShare: which rows of each batch are those of one of several processes. A value.
#pragma once

#include <cstdint>

#include <lockstep/core/export.h>

namespace lockstep::data {

/// Rows [first, first + count) of a batch.
struct RowRange {
  std::int64_t first = 0;  ///< The first row.
  std::int64_t count = 0;  ///< How many.

  bool operator==(const RowRange&) const = default;
};

/// The rows that one process's devices would get if one process with the devices of all of them divided the batch: of B
/// rows each device has ceil(B / (processes * devices)), those of process 0 first, and the last ones have fewer or none
/// (ScatterSplit::chunk). Unless told otherwise, all rows.
struct LOCKSTEP_API BatchShare {
  int process = 0;    ///< From 0.
  int processes = 1;  ///< How many there are.
  int devices = 1;    ///< Of each process.

  /// Throws InvalidArgument unless 0 <= process < processes and there is a device.
  void check() const;
  bool is_all() const noexcept { return processes == 1; }  ///< Whether these are all rows.
  /// Of a batch of `total` rows, total >= 0.
  RowRange rows(std::int64_t total) const noexcept;

  bool operator==(const BatchShare&) const = default;
};

}  // namespace lockstep::data
