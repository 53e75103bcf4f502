// What the host gives a captured step each time that it is done again: an optimizer's learning rate and step count,
// where dropout stands in its sequence of random numbers. Kernels read such values from their device's memory. The host
// computes them as in an eager step, by the same code, and sends them to each device in one copy.
//
// Besides, the memory that was there before and that the captured work uses: it lives as long as this, and its versions
// grow each time that the work is done again, as often as in the capture.
//
// While a step is captured its values are Context::step_values. Several replicas may add values at once.
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
struct StepValue {
  Tensor memory;              ///< Its bytes, [n] uint8.
  std::byte* host = nullptr;  ///< Where the next one is written before the step is done again.

  const void* data() const noexcept;
};

class StepValues {
 public:
  /// `first_node`: autograd nodes before this one are of other steps.
  explicit StepValues(std::uint64_t first_node = 0);
  ~StepValues();
  StepValues(const StepValues&) = delete;
  StepValues& operator=(const StepValues&) = delete;

  /// A new value, of which the first is given. Throws InvalidArgument where a step has more than kMostBytes of them.
  StepValue add(DeviceState& device, const void* first, std::size_t bytes);
  /// The start of random numbers that were drawn at `drawn`: there, or in a sequence made from it by sequence_of().
  /// Throws InvalidArgument for a sequence that is a replica's own.
  StepValue add_random(DeviceState& device, const GeneratorState& drawn, bool is_sequence);
  /// What the host does each time before the step is done again, in the order of these calls.
  void before_each(std::function<void()> action);

  /// Captured work uses the storage, or is about to change it. Ignores one that was made for it.
  void use(Storage& storage);
  bool uses(const Storage& storage) const { return used_.contains(const_cast<Storage*>(&storage)); }

  void end_capture();          ///< The step has been enqueued.
  void send();                 ///< Enqueues the present values on the current streams.
  void advance();              ///< Does what each step does on the host.
  void count_changes() const;  ///< The work was launched again: counts its changes in place.

  std::uint64_t id() const noexcept { return id_; }  ///< Of this process, from 1 on.
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
    std::uint64_t offset;  // of the draw, from where the step began
    bool is_sequence;
  };

  const std::uint64_t id_, first_node_;
  bool is_capturing_ = true;
  RankedMutex<LockRank::step_values> mutex_;
  std::map<DeviceState*, OnDevice> devices_;
  std::unordered_map<Storage*, std::uint64_t> used_;         // with a reference; the version before
  std::vector<std::pair<Storage*, std::uint64_t>> changed_;  // of those, and how often
  std::vector<Random> random_;
  std::vector<std::function<void()>> actions_;
  const GeneratorState begin_;
  std::uint64_t drawn_ = 0;
};

/// What draw_for_batch() makes its sequence from.
GeneratorState draw_point_for_batch();

/// Where random numbers begin: `now`, or what lies at `each_time` when the kernel runs.
struct RandomStart {
  GeneratorState now;
  const GeneratorState* each_time = nullptr;

  LOCKSTEP_HD GeneratorState get() const { return each_time ? *each_time : now; }
};

/// A draw for numbers on a device.
struct DeviceDraw {
  RandomStart start;
  Tensor memory;  ///< What `start` reads when the kernel runs; undefined if nothing.
};
DeviceDraw draw_on(DeviceState& device, std::uint64_t blocks);  ///< As draw().
DeviceDraw draw_for_batch_on(DeviceState& device);              ///< As draw_for_batch().

}  // namespace lockstep
