#include "tensor/replay_values.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/tensor/batch_shard.h>

#include "core/context.h"
#include "core/text.h"
#include "kernels/launch.h"
#include "runtime/graphs.h"
#include "runtime/registry.h"
#include "tensor/philox.h"

namespace lockstep {
namespace {

constexpr std::size_t kAlignment = 16;

GeneratorState start_at(GeneratorState point, bool is_sequence) { return is_sequence ? sequence_of(point) : point; }

DeviceDraw drawn_on(DeviceState& device, const GeneratorState& point, bool is_sequence) {
  DeviceDraw draw{{start_at(point, is_sequence)}, {}};
  ReplayValues* const values = context().replay_values;
  if (!values || device.device.is_cpu()) return draw;
  const ReplayValue value = values->add_random(device, point, is_sequence);
  draw.start.device_state = static_cast<const GeneratorState*>(value.data());
  draw.memory = value.memory;
  return draw;
}

std::atomic<std::uint64_t> last_id = 0;

}  // namespace

std::atomic<int> detail::captures = 0;

void detail::use_in_capture(Storage& storage) noexcept {
  if (ReplayValues* const values = context().replay_values; values && !storage.device->device.is_cpu())
    values->use(storage);
}

void detail::expect_in_step(const StreamHandle& stream) {
  if (context().replay_values) return;
  Graphs* const graphs = accelerators()->backend().graphs();
  if (graphs && graphs->is_capturing(stream))
    throw InvalidArgument(text("[capture] expected no work of another thread on stream ", stream.id, " of ",
                               Device::cuda(stream.device),
                               ", whose work is being captured as a training step: let the threads take turns, or let "
                               "the other thread use a stream of its own"));
}

const void* ReplayValue::data() const noexcept { return memory.impl()->data(); }

// Allocates before the capture begins: if memory is allocated during the capture, each replay overwrites it. (On
// simulated devices, a replay poisons such memory.)
ReplayValues::ReplayValues(std::uint64_t first_node)
    : id_(++last_id), first_node_(first_node), begin_(current_generator()) {
  for (const Device& gpu : visible_gpus()) {
    DeviceState& device = device_state(gpu);
    devices_[&device] = {make_tensor(device, {std::int64_t(kMostBytes)}, kUInt8),
                         std::make_unique<std::byte[]>(kMostBytes)};
  }
  ++detail::captures;
}

ReplayValues::~ReplayValues() {
  if (is_capturing_) --detail::captures;
  for (const auto& [storage, version] : used_) {
    --storage->captures;
    storage->release();
  }
}

void ReplayValues::use(Storage& storage) {
  if (storage.made_in == id_) return;
  const std::scoped_lock lock(mutex_);
  if (!used_.try_emplace(&storage, storage.version).second) return;
  storage.retain();
  ++storage.captures;
}

ReplayValue ReplayValues::add(DeviceState& device, const void* first, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  OnDevice& there = devices_.at(&device);
  if (kMostBytes - there.used < bytes)
    throw InvalidArgument(text("[capture] expected at most ", kMostBytes,
                               " bytes of values that change from step to step on ", device.device, ", got more"));
  std::byte* const host = there.host.get() + there.used;
  std::memcpy(host, first, bytes);
  const ReplayValue value{there.memory.narrow(0, std::int64_t(there.used), std::int64_t(bytes)), host};
  there.used = std::min(kMostBytes, (there.used + bytes + kAlignment - 1) / kAlignment * kAlignment);
  return value;
}

ReplayValue ReplayValues::add_random(DeviceState& device, const GeneratorState& drawn, bool is_sequence) {
  if (drawn.seed != begin_.seed || drawn.stream != begin_.stream)
    throw InvalidArgument(
        "[capture] a captured step can draw random numbers only from the generator of the thread that calls it, as "
        "dropout does, not from a replica's own: draw the numbers before the step, or run the step eagerly");
  const GeneratorState first = start_at(drawn, is_sequence);
  const ReplayValue value = add(device, &first, sizeof first);
  const std::scoped_lock lock(mutex_);
  random_.push_back({value.host, drawn.offset - begin_.offset, is_sequence});
  return value;
}

void ReplayValues::before_each(std::function<void()> action) {
  const std::scoped_lock lock(mutex_);
  actions_.push_back(std::move(action));
}

void ReplayValues::before_end(std::function<void()> action) {
  const std::scoped_lock lock(mutex_);
  last_actions_.push_back(std::move(action));
}

// Without the mutex: the actions enqueue work.
void ReplayValues::run_before_end() {
  for (const auto& action : std::exchange(last_actions_, {})) action();
}

void ReplayValues::end_capture() {
  drawn_ = current_generator().offset - begin_.offset;
  is_capturing_ = false;
  --detail::captures;
  for (const auto& [storage, before] : used_)
    if (const std::uint64_t changes = storage->version - before) changed_.emplace_back(storage, changes);
}

void ReplayValues::bump_versions() const {
  for (const auto& [storage, changes] : changed_) storage->version.fetch_add(changes, std::memory_order_relaxed);
}

void ReplayValues::send() {
  for (const auto& [device, there] : devices_) {
    if (there.used == 0) continue;
    const StreamHandle stream = current_stream_handle(*device);
    use_on(stream, there.memory);
    device->backend.copy(stream, {.to = there.memory.impl()->data(),
                                  .from = there.host.get(),
                                  .to_device = stream.device,
                                  .row_bytes = there.used,
                                  .to_pitch = there.used,
                                  .from_pitch = there.used});
  }
}

void ReplayValues::advance() {
  for (const auto& action : actions_) action();
  const GeneratorState begin = draw(drawn_);
  for (const Random& random : random_) {
    GeneratorState point = begin;
    point.offset += random.offset;
    const GeneratorState start = start_at(point, random.is_sequence);
    std::memcpy(random.host, &start, sizeof start);
  }
}

std::uint64_t present_step() noexcept {
  const ReplayValues* const captured = context().replay_values;
  return captured ? captured->id() : 0;
}

DeviceDraw draw_on(DeviceState& device, std::uint64_t blocks) { return drawn_on(device, draw(blocks), false); }
DeviceDraw draw_for_batch_on(DeviceState& device) { return drawn_on(device, draw_point_for_batch(), true); }

}  // namespace lockstep
