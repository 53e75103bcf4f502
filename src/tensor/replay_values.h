// Values that the host sends to a captured step (a training step that is replayed as a graph) before each replay: an
// optimizer's learning rate and step count, dropout's position in its sequence of random numbers. Kernels read such
// values from their device's memory. The host computes them by the same code as in a step that it runs itself, and
// sends them to each device in one copy.
//
// ReplayValues also keeps the older storages that the captured work uses alive, and bumps their versions at each replay
// as often as the capture did.
//
// While a step is captured, Context::replay_values points to its ReplayValues. Several replicas may add values at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/tensor/random.h>
#include <lockstep/tensor/tensor.h>

#include "core/ranked_mutex.h"

namespace lockstep {

struct DeviceState;
struct Storage;

/// A value in a device's memory.
struct ReplayValue {
  Tensor memory;              ///< Its bytes, [n] uint8.
  std::byte* host = nullptr;  ///< The host writes the next value here before a replay.

  const void* data() const noexcept;
};

class ReplayValues {
 public:
  /// `first_node`: autograd nodes before this one belong to other steps.
  explicit ReplayValues(std::uint64_t first_node = 0);
  ~ReplayValues();
  ReplayValues(const ReplayValues&) = delete;
  ReplayValues& operator=(const ReplayValues&) = delete;

  /// Adds a value, which is `first` during the capture. Throws InvalidArgument if a step has more than kMostBytes of
  /// values.
  ReplayValue add(DeviceState& device, const void* first, std::size_t bytes);
  /// Adds the start of random numbers that were drawn at `drawn`: `drawn` itself, or sequence_of(drawn) if is_sequence.
  /// Throws InvalidArgument if `drawn` is of a replica's own generator, not of the thread that calls the step.
  ReplayValue add_random(DeviceState& device, const GeneratorState& drawn, bool is_sequence);
  /// Adds an action that the host runs before each replay, in the order of these calls.
  void before_each(std::function<void()> action);
  /// Adds an action that the host runs once, after the step's function, also if that has failed. It may enqueue work,
  /// which is captured.
  void before_end(std::function<void()> action);

  /// Called when captured work uses the storage or is about to change it. Ignores storages that the captured step made.
  void use(Storage& storage);
  bool uses(const Storage& storage) const { return used_.contains(const_cast<Storage*>(&storage)); }

  void run_before_end();       ///< Runs those actions.
  void end_capture();          ///< Called when the step has been enqueued.
  void send();                 ///< Enqueues the present values on the current streams.
  void advance();              ///< Runs the actions of before_each(), and draws the next random numbers.
  void bump_versions() const;  ///< Called after a replay: bumps the versions.

  std::uint64_t id() const noexcept { return id_; }  ///< Unique in this process, from 1 on.
  std::uint64_t first_node() const noexcept { return first_node_; }

  static constexpr std::size_t kMostBytes = std::size_t(1) << 16;  ///< On each device.

 private:
  struct OnDevice {
    Tensor memory;
    std::unique_ptr<std::byte[]> host;
    std::size_t used = 0;
  };
  struct Random {
    std::byte* host;
    std::uint64_t offset;  // of the draw, from the start of the step
    bool is_sequence;
  };

  const std::uint64_t id_, first_node_;
  bool is_capturing_ = true;
  RankedMutex<LockRank::replay_values> mutex_;
  std::map<DeviceState*, OnDevice> devices_;
  std::unordered_map<Storage*, std::uint64_t> used_;         // retained; with the version before the capture
  std::vector<std::pair<Storage*, std::uint64_t>> changed_;  // those that changed, and how often
  std::vector<Random> random_;
  std::vector<std::function<void()>> actions_, last_actions_;
  const GeneratorState begin_;
  std::uint64_t drawn_ = 0;
};

/// The id of the step that is being captured; 0 if none is.
std::uint64_t present_step() noexcept;

/// The point from which draw_for_batch() makes its sequence.
GeneratorState draw_point_for_batch();

/// The start of random numbers: `now`, or, in a captured step, the value at `device_state` when the kernel runs.
struct RandomStart {
  GeneratorState now;
  const GeneratorState* device_state = nullptr;

  LOCKSTEP_HD GeneratorState get() const { return device_state ? *device_state : now; }
};

/// A draw of random numbers that a kernel makes on a device.
struct DeviceDraw {
  RandomStart start;
  Tensor memory;  ///< Memory that `start` reads when the kernel runs; may be undefined.
};
DeviceDraw draw_on(DeviceState& device, std::uint64_t blocks);  ///< As draw().
DeviceDraw draw_for_batch_on(DeviceState& device);              ///< As draw_for_batch().

}  // namespace lockstep
