#include "parallel/gradient_memory.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/autograd/grad_mode.h>

#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/replay_values.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

namespace {

using Buffer = BucketBuffers::Buffer;

// A captured step begins after all work on the devices before it, and must not wait for work outside of it. Its work
// ends before later work. So only uses in the present step, or outside of steps, have to be waited for.
//
// Returns false if the use was noted before.
bool note_use(Buffer& buffer, const Stream& stream) {
  const auto found = std::ranges::find(buffer.uses, stream, &BucketBuffers::Use::stream);
  if (found == buffer.uses.end()) return buffer.uses.push_back({stream, present_step()}), true;
  found->step = present_step();
  return false;
}

// Before the memory is freed: work on these streams may still use it.
void record_uses(const Buffer& buffer) {
  for (const BucketBuffers::Use& use : buffer.uses) buffer.memory.record_stream(use.stream);
}

}  // namespace

BucketBuffers::~BucketBuffers() {
  try {
    for (const Buffer& buffer : free_) record_uses(buffer);
  } catch (...) {  // the device is gone, and its memory with it
  }
}

void BucketBuffers::fit(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  bytes_ = std::max(bytes_, bytes);
}

void BucketBuffers::make_more(bool makes_more) {
  const std::scoped_lock lock(mutex_);
  makes_more_ = makes_more;
}

// The mutex is not held while memory is allocated: that may wait for work that waits for another thread, which may give
// a buffer back first.
Buffer BucketBuffers::take() {
  std::unique_lock lock(mutex_);
  std::erase_if(free_, [this](const Buffer& buffer) {  // from before a larger bucket was added
    if (buffer.memory.impl()->storage->bytes == bytes_) return false;
    record_uses(buffer);
    --made_;
    return true;
  });
  const auto has_ended = [](const BucketBuffers::Use& use) {
    return use.step == 0 && present_step() == 0 && use.stream.query();
  };
  auto found = std::ranges::find_if(
      free_, [&](const Buffer& buffer) { return !makes_more_ || std::ranges::all_of(buffer.uses, has_ended); });
  Buffer taken;
  if (found != free_.end()) {
    taken = std::move(*found);
    free_.erase(found);
  } else {
    const std::size_t count = std::max<std::size_t>(kept_, made_ + 1) - made_, bytes = bytes_;
    made_ += count;
    std::vector<Buffer> made;
    lock.unlock();
    try {
      while (made.size() < count)  // (the memory may be free on the present stream alone)
        made.push_back({make_tensor(device_state(device), {std::int64_t(bytes)}, kUInt8),
                        {{current_stream(device), present_step()}}});
    } catch (...) {
      lock.lock();
      made_ -= count;
      throw;
    }
    taken = std::move(made.back());
    made.pop_back();
    lock.lock();
    for (Buffer& each : made) free_.push_back(std::move(each));
  }
  const Stream stream = current_stream(device);
  for (const BucketBuffers::Use& use : taken.uses)
    if (use.stream != stream && use.step == present_step()) stream.wait(use.stream.record());
  taken.uses.clear();
  return taken;
}

void BucketBuffers::give_back(Buffer buffer) {
  const std::scoped_lock lock(mutex_);
  if (made_ <= kept_) return free_.push_back(std::move(buffer));
  record_uses(buffer);
  --made_;
}

Tensor GradientMemory::make_flat(std::shared_ptr<BucketBuffers> buffers, std::int64_t elements, DType dtype,
                                 std::size_t rank, std::size_t ranks) {
  const NoGrad guard;
  DeviceState& device = device_state(buffers->device);
  const Tensor share = make_tensor(device, {elements / std::int64_t(ranks)}, dtype);
  fill_values(share, 0);
  Tensor flat = make_without_memory(device, {elements}, dtype);
  Storage& storage = *flat.impl()->storage;
  buffers->fit(storage.bytes);
  storage.transient = std::make_unique<GradientMemory>(std::move(buffers), share, rank, storage.bytes);
  return flat;
}

GradientMemory* GradientMemory::of(const Tensor& flat) noexcept {
  return dynamic_cast<GradientMemory*>(flat.impl()->storage->transient.get());
}

const Storage* GradientMemory::buffer() const noexcept { return buffer_ ? buffer_->memory.impl()->storage : nullptr; }

GradientMemory::~GradientMemory() {
  if (!buffer_) return;
  try {
    buffers_->give_back(std::move(*buffer_));
  } catch (...) {  // a few bytes could not be allocated: the buffer goes
  }
}

void GradientMemory::fill_from_share(const Buffer& buffer, const Stream& stream) const {
  fill_values(make_view(buffer.memory, {std::int64_t(bytes_)}, {1}, 0), 0);
  share_.record_stream(stream);
  const std::size_t part = share_.impl()->storage->bytes;
  const Device device = buffers_->device;
  device_state(device).backend.copy(StreamAccess::handle(stream), {.to = buffer.memory.impl()->data() + rank_ * part,
                                                                   .from = share_.impl()->data(),
                                                                   .to_device = device.index(),
                                                                   .from_device = device.index(),
                                                                   .row_bytes = part});
}

std::byte* GradientMemory::bring() {
  const std::scoped_lock lock(mutex_);
  if (!buffer_) {
    const NoGrad guard;
    const WithoutEnqueuing operation;
    Buffer taken = buffers_->take();
    const Device device = buffers_->device;
    const Stream stream = current_stream(device);
    if (!std::exchange(is_unused_, false)) fill_from_share(taken, stream);
    full_.emplace(stream.record());
    full_in_ = present_step();
    note_use(taken, stream);
    buffer_ = std::move(taken);
  }
  return buffer_->memory.impl()->data();
}

void GradientMemory::use_on(const StreamHandle& handle) {
  const std::scoped_lock lock(mutex_);
  const Stream stream = StreamAccess::make(buffers_->device, handle.id);
  if (buffer_ && full_in_ != present_step()) whole_before_ = present_step();
  if (buffer_ && note_use(*buffer_, stream) && full_in_ == present_step()) stream.wait(*full_);
}

void GradientMemory::release(const Stream& stream) {
  const std::scoped_lock lock(mutex_);
  is_unused_ = false;
  if (!buffer_) return;
  note_use(*buffer_, stream);
  full_.reset();
  buffers_->give_back(*std::exchange(buffer_, std::nullopt));
}

Tensor GradientMemory::own_part(const TensorImpl& tensor) const {
  if (buffer_) return {};
  const std::int64_t part = share_.numel(), at = std::int64_t(rank_) * part;
  const std::int64_t from = std::max(tensor.offset, at), to = std::min(tensor.offset + tensor.numel, at + part);
  return from < to ? make_view(share_, {to - from}, {1}, from - at) : make_view(share_, {0}, {1}, 0);
}

}  // namespace lockstep
