#include "backends/cpu/cpu_backend.h"

#include <sys/sysinfo.h>

#include "cpu/fused_dispatch.h"
#include "cpu/memory.h"
#include "cpu/parallel.h"
#include "cpu/process_collective.h"
#include "runtime/trace/trace.h"

namespace lockstep {
namespace {

constexpr KernelContext kContext = {.parallel = true};

struct CpuCommunicator {
  const Peers peers;
  std::size_t sequence = 0;
};

class CpuBackend final : public Backend {
 public:
  DeviceType type() const noexcept override { return DeviceType::cpu; }
  int device_count() const noexcept override { return 1; }
  DeviceProperties properties(int) const override {
    struct sysinfo info = {};
    ::sysinfo(&info);
    return {"CPU", std::size_t(info.totalram) * info.mem_unit, ""};
  }

  void* allocate(int, std::size_t bytes) override { return host::allocate(bytes); }
  void deallocate(int, void* memory, std::size_t) noexcept override { host::deallocate(memory); }

  // The CPU has one stream. Its work has always ended, because calls compute before they return.
  void* create_stream(int, int, StreamPriority) override { return nullptr; }
  bool query_stream(StreamHandle) override { return true; }
  void synchronize_stream(StreamHandle) override {}
  EventHandle create_event(int) override { return nullptr; }
  void destroy_event(EventHandle) noexcept override {}
  void record(EventHandle, StreamHandle) override {}
  void wait(StreamHandle, EventHandle) override {}
  bool query_event(EventHandle) override { return true; }
  void synchronize_event(EventHandle) override {}

  void launch(StreamHandle, const LaunchInfo& info, KernelRef kernel) override {
    const TraceSpan span(info.name, TraceSpan::kCpu, 0, info);
    kernel(kContext);
  }

  void copy(StreamHandle, const Copy& copy) override {
    const TraceSpan span("copy", TraceSpan::kCpu, 0, copy);
    host::copy(kContext, copy);
  }

  void matmul(StreamHandle, const Matmul& matmul) override {
    const TraceSpan span("matmul", TraceSpan::kCpu, 0, matmul);
    host::matmul(kContext, matmul);
  }
  std::optional<std::size_t> workspace_size(int, const FusedOp& op) override { return host::workspace_size(op); }
  void fused(StreamHandle, const FusedOp& op, void* workspace) override {
    const TraceSpan span(op.name, TraceSpan::kCpu, 0, op);
    host::fused(kContext, op, workspace);
  }

  // A process has one CPU. In a single process a communicator therefore has one rank, and every collective is a copy.
  CommunicatorHandle create_communicator(std::span<const int>, const Peers& peers,
                                         const CommunicatorOptions&) override {
    return peers.transport ? new CpuCommunicator{peers} : nullptr;
  }
  void destroy_communicator(CommunicatorHandle handle) noexcept override {
    delete static_cast<CpuCommunicator*>(handle);
  }
  void abort_communicator(CommunicatorHandle handle) noexcept override {
    if (handle) static_cast<CpuCommunicator*>(handle)->peers.transport->fail("a communicator was aborted");
  }
  void collective(CommunicatorHandle handle, const CollectiveCall& call) override {
    if (auto* const communicator = static_cast<CpuCommunicator*>(handle)) {
      const TraceSpan span(call.name, TraceSpan::kCpu, 0, trace_of(call, 0));
      return host::ProcessCollective(call, communicator->peers, communicator->sequence++).run();
    }
    const auto move = [&](void* to, const void* from, std::size_t count) {
      const std::size_t bytes = count * size_of(call.dtype);
      if (to != from && bytes > 0) copy({}, {.to = to, .from = from, .row_bytes = bytes});
    };
    for (const CollectivePart& part : call.parts) move(part.receive, part.send, call.count);
    for (const Transfer& transfer : call.transfers) move(transfer.receive, transfer.send, transfer.count);
  }
};

}  // namespace

std::shared_ptr<Backend> make_cpu_backend() { return std::make_shared<CpuBackend>(); }

}  // namespace lockstep
