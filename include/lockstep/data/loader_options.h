// The options and the position of a DataLoader.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <lockstep/data/batch_share.h>
#include <lockstep/runtime/device.h>

namespace lockstep::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;             ///< Samples in a batch, over all processes; the last batch may have fewer.
  bool shuffle = false;                    ///< A new order in each epoch.
  std::optional<std::uint64_t> seed = {};  ///< For the order and for random numbers in get(); random by default.
  int num_workers = 0;                     ///< Number of tasks that prefetch batches; 0: the loop makes them.
  /// The device of the batches; by default they stay where get() and the collation leave them. Each batch is copied on
  /// a separate stream before the loop gets the previous batch, so that the copy overlaps the computation. Two batches
  /// are therefore on the device, and the loader reads one batch ahead even without workers.
  std::optional<Device> device = {};
  /// Pin batches (Tensor::pin_memory), on the thread that makes them, so that copies to GPUs do not block the host.
  /// Default: true if `device` is a GPU. Tensors that get() or the collation left on a GPU stay there. No effect
  /// without a GPU.
  std::optional<bool> pin_memory = {};
  bool drop_last = false;  ///< Drop an incomplete last batch.
  /// How long the loop waits for a batch of its workers before it throws TimeoutError. 0: forever. Needs workers.
  std::chrono::milliseconds timeout = {};
  std::int64_t prefetch_factor = 2;  ///< Batches prefetched per worker.
  BatchShare share = {};             ///< This process's rows of each batch; all rows by default.
};

/// A point between two batches of a loader.
struct LoaderState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;       ///< From 0.
  std::int64_t batch = 0;       ///< The next batch of this epoch.
  std::int64_t batch_size = 0;  ///< The size of the batches that `batch` counts; 0: unknown.

  bool operator==(const LoaderState&) const = default;
};

}  // namespace lockstep::data
