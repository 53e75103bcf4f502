// Enqueues launches, copies, matrix products and fused operations on a simulated stream: checked first, then counted,
// then enqueued.
#include <lockstep/core/error.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "backends/sim/accesses.h"
#include "backends/sim/sim_backend.h"
#include "cpu/fused_dispatch.h"

namespace lockstep {

using sim::AsyncError;
using sim::FaultKind;
using sim::kHost;
using sim::SimStream;
using sim::Task;

namespace {

std::unique_ptr<std::byte[]> rows_from_host(const Copy& copy) {
  std::unique_ptr<std::byte[]> staged(new std::byte[copy.bytes()]);
  for (std::size_t row = 0; row < copy.rows; ++row)
    std::memcpy(staged.get() + row * copy.row_bytes, static_cast<const std::byte*>(copy.from) + row * copy.from_pitch,
                copy.row_bytes);
  return staged;
}

}  // namespace

void SimBackend::launch(StreamHandle handle, const LaunchInfo& info, KernelRef kernel) {
  if (graphs_.is_capturing(handle)) {
    const std::vector<MemoryAccess> accesses(info.accesses.begin(), info.accesses.end());
    graphs_.capture(handle, [this, handle, name = info.name, flops = info.flops, accesses, owned = kernel.own()] {
      launch(handle, {name, flops, accesses}, owned);
    });
    return;
  }
  const EnqueueMark mark = EnqueueMark::begin();
  SimStream& stream = stream_of(handle);
  stream.wait_for_room();
  Task task = {info.name, sim::KernelTask{kernel.own(), info.flops, trace_of(info).bytes}, nullptr, mark};
  const std::scoped_lock lock(mutex_);
  declare(stream, info.name, info.accesses);
  enqueue(stream, FaultKind::launch, std::move(task));
}

void SimBackend::copy(StreamHandle handle, const Copy& copy) {
  if (copy.rows == 0 || copy.row_bytes == 0) return;
  if (copy.from_device == kHost || copy.to_device == kHost)
    graphs_.refuse(copy.to_device == kHost ? "a copy to the host" : "a copy from the host", handle);
  if (graphs_.capture(handle, [this, handle, copy] { this->copy(handle, copy); })) return;
  const EnqueueMark mark = EnqueueMark::begin();
  SimStream& stream = stream_of(handle);
  const bool to_host = copy.to_device == kHost;
  sim::CopyTask task = {copy, nullptr};
  const std::size_t staged_bytes = copy.from_device == kHost && !copy.pinned ? copy.bytes() : 0;
  stream.wait_for_room(staged_bytes);
  if (staged_bytes > 0) {
    task.staged = rows_from_host(copy);
    task.copy.from = task.staged.get();
    task.copy.from_pitch = copy.row_bytes;
  }
  // In a copy to the host, the worker writes this variable and the host's memory until the copy has ended. So between
  // enqueue() and wait_for() below nothing may throw.
  std::shared_ptr<AsyncError> failure;
  Moment done;
  {
    const std::scoped_lock lock(mutex_);
    const Region from = {copy.from, copy.row_bytes, copy.rows, copy.from_pitch};
    const Region to = {copy.to, copy.row_bytes, copy.rows, copy.to_pitch};
    memory_.expect("copy", copy.from_device, from, AccessKind::read);
    if (copy.pinned) memory_.expect_pinned("copy", from);
    memory_.expect("copy", copy.to_device, to, AccessKind::write);
    MemoryAccess accesses[2];
    std::size_t count = 0;
    if (copy.from_device != kHost || copy.pinned) accesses[count++] = {from, AccessKind::read};
    if (copy.to_device != kHost) accesses[count++] = {to, AccessKind::write};
    if (options_.check_races) races_.access(stream.index, "copy", {accesses, count});
    if (copy.from_device != copy.to_device && copy.from_device != kHost && copy.to_device != kHost)
      faults_.next(FaultKind::peer_copy, stream.device);
    if (to_host) {
      faults_.next(FaultKind::host_wait, stream.device);
      done = now(stream);
    }
    enqueue(stream, FaultKind::copy, {"copy", std::move(task), to_host ? &failure : nullptr, mark});
    if (staged_bytes > 0) stream.count_staged_bytes(staged_bytes);
    if (!to_host) return;
    done.ticket = stream.last_ticket();
  }
  wait_for(done);
  if (failure)
    clear_and_throw(*failure, stream.device);  // even if it was reported to another thread: nothing was copied
}

void SimBackend::matmul(StreamHandle handle, const Matmul& matmul) {
  if (graphs_.capture(handle, [this, handle, matmul] { this->matmul(handle, matmul); })) return;
  const EnqueueMark mark = EnqueueMark::begin();
  SimStream& stream = stream_of(handle);
  stream.wait_for_room();
  const std::vector<MemoryAccess> accesses = sim::accesses_of(matmul);
  const std::scoped_lock lock(mutex_);
  declare(stream, "matmul", accesses);
  enqueue(stream, FaultKind::launch, {"matmul", matmul, nullptr, mark});
}

std::optional<std::size_t> SimBackend::workspace_size(int, const FusedOp& op) { return host::workspace_size(op); }

void SimBackend::fused(StreamHandle handle, const FusedOp& op, void* workspace) {
  if (graphs_.capture(handle, [this, handle, op, workspace] { fused(handle, op, workspace); })) return;
  const EnqueueMark mark = EnqueueMark::begin();
  SimStream& stream = stream_of(handle);
  stream.wait_for_room();
  const std::vector<MemoryAccess> accesses = sim::accesses_of(op, workspace, workspace ? *host::workspace_size(op) : 0);
  Task task = {op.name, std::make_unique<sim::FusedTask>(sim::FusedTask{op, workspace}), nullptr, mark};
  const std::scoped_lock lock(mutex_);
  declare(stream, op.name, accesses);
  enqueue(stream, FaultKind::launch, std::move(task));
}

void SimBackend::declare(SimStream& stream, const char* op, std::span<const MemoryAccess> accesses) {
  for (const MemoryAccess& access : accesses) memory_.expect(op, stream.device, access.region, access.kind);
  if (options_.check_races) races_.access(stream.index, op, accesses);
}

void SimBackend::enqueue(SimStream& stream, FaultKind kind, Task task) {
  const sim::Faults::Verdict verdict = faults_.next(kind, stream.device);
  if (verdict != sim::Faults::Verdict::works) {
    const bool lost = verdict == sim::Faults::Verdict::lost;
    const BackendError error(task.op, sim::kLaunchFailure, stream.device_name, "an injected fault");
    task.work =
        sim::FailTask{lost ? loss_of(stream.device, task.op)
                           : std::make_shared<AsyncError>(std::make_exception_ptr(error), task.op, stream.device_name)};
  }
  stream.push(std::move(task));
}

// All work that fails because a device is lost shares one error until the host gets it, so that it is reported once.
std::shared_ptr<AsyncError> SimBackend::loss_of(int device, const char* op) {
  std::shared_ptr<AsyncError>& loss = losses_[std::size_t(device)];
  if (!loss || loss->is_cleared()) {
    const std::string name = Device::cuda(device).name();
    const BackendError error(op, sim::kDeviceLost, name, "the device is lost");
    loss = std::make_shared<AsyncError>(std::make_exception_ptr(error), op, name);
  }
  return loss;
}

// Enqueues a task that fails with the error. For callers that must not throw.
void SimBackend::fail(SimStream& stream, const char* op, std::exception_ptr error) noexcept {
  try {
    stream.push({op, sim::FailTask{std::make_shared<AsyncError>(std::move(error), op, stream.device_name)}});
  } catch (...) {
    std::fprintf(stderr, "[sim] '%s' failed on %s, and there is no memory to keep its error\n", op,
                 stream.name.c_str());
  }
}

}  // namespace lockstep
