// What a DataLoader is told, and where it stands.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <lockstep/data/batch_share.h>
#include <lockstep/runtime/device.h>

namespace lockstep::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;  ///< Samples in a batch, of all processes together; the last one may have fewer.
  bool shuffle = false;         ///< A new order in each epoch.
  std::optional<std::uint64_t> seed = {};  ///< Of the order and of random numbers in get(); else drawn.
  int num_workers = 0;                     ///< Tasks that make batches ahead of the loop; 0: the loop makes them.
  /// Where batches are when the loop gets them; else where get() and the collation leave them. The next batch is copied
  /// there, on a stream of its own, before the loop gets the one at hand: the copy runs while the device computes. So
  /// two batches are on the device, and the loop reads one batch ahead even without workers.
  std::optional<Device> device = {};
  /// Whether batches are put into page-locked memory (Tensor::pin_memory), by whoever makes them: the workers. Copies
  /// to GPUs then cost the host nothing. Unless it is told: where `device` is a GPU. What get() or the collation leaves
  /// on a GPU stays there. Where there is no GPU, batches stay as they are.
  std::optional<bool> pin_memory = {};
  bool drop_last = false;  ///< Leave out a last batch that is not full.
  /// How long the loop waits for a batch of its workers before it throws TimeoutError. 0: for ever. Needs workers.
  std::chrono::milliseconds timeout = {};
  std::int64_t prefetch_factor = 2;  ///< Batches that each worker may be ahead.
  BatchShare share = {};             ///< This process's rows of each batch; all of them, unless told otherwise.
};

/// A point between two batches of a loader.
struct LoaderState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;       ///< From 0.
  std::int64_t batch = 0;       ///< The next one of this epoch.
  std::int64_t batch_size = 0;  ///< Of the batches before it; 0: not known.

  bool operator==(const LoaderState&) const = default;
};

}  // namespace lockstep::data
