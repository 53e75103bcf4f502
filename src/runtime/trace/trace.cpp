#include "runtime/trace/trace.h"

#include <lockstep/core/error.h>

#include <deque>
#include <new>
#include <ostream>

#include "core/ranked_mutex.h"
#include "core/text.h"
#include "runtime/collectives/collective_call.h"
#include "runtime/trace/trace_json.h"
#include "runtime/trace/trace_recorder.h"

namespace lockstep {
namespace {

RankedMutex<LockRank::trace> states_mutex;
std::array<std::shared_ptr<Trace::State>, 2> recording_states;  // by TraceOwner: of a Trace, and of LOCKSTEP_TRACE

// Numbers the threads in the order of their first calls.
int thread_number() {
  static std::atomic<int> threads = 0;
  thread_local const int number = ++threads;
  return number;
}

}  // namespace

void set_recording_state(TraceOwner owner, std::shared_ptr<Trace::State> state) {
  const std::scoped_lock lock(states_mutex);
  auto& place = recording_states[std::size_t(owner)];
  if (state && place) throw InvalidArgument("[Trace] expected one Trace at a time, got a second one");
  place = std::move(state);
  detail::trace_records = recording_states[0] || recording_states[1];
}

void Trace::State::add(const Record& record) noexcept {
  const std::scoped_lock lock(mutex);
  if (records.size() >= most) {
    ++dropped;
    return;
  }
  try {
    records.push_back(record);
  } catch (const std::bad_alloc&) {  // the work continues, but is missing in the trace
    ++dropped;
  }
}

std::vector<TraceEvent> Trace::State::events() const {
  const auto us = [&](Clock::time_point time) {
    return std::chrono::duration<double, std::micro>(time - began).count();
  };
  const std::scoped_lock lock(mutex);
  std::vector<TraceEvent> events;
  events.reserve(records.size());
  for (const Record& record : records) {
    const bool is_cpu = record.device == TraceSpan::kCpu;
    TraceEvent& event = events.emplace_back(TraceEvent{record.name, is_cpu ? Device() : Device::cuda(record.device),
                                                       record.stream, us(record.began), us(record.ended)});
    event.kind = record.work.kind;
    event.flops = record.work.flops;
    event.bytes = record.work.bytes;
    event.collective = record.work.collective;
    if (record.mark.thread == 0 || record.mark.began < began) continue;  // enqueued before the recording began
    event.host_thread = record.mark.thread;
    event.enqueue_start_us = us(record.mark.began);
    event.enqueue_end_us = us(record.mark.ended);
  }
  return events;
}

Trace::Trace() : state_(std::make_shared<State>()) { set_recording_state(TraceOwner::program, state_); }
Trace::~Trace() { set_recording_state(TraceOwner::program, nullptr); }

std::vector<TraceEvent> Trace::events() const { return state_->events(); }

void Trace::write_json(std::ostream& out) const { write_trace_json(out, events(), {}, state_->dropped_so_far()); }

void Trace::write_json(std::ostream& out, Device device) const {
  if (device.is_cpu())
    throw InvalidArgument("[Trace] expected a GPU, got cpu: write_json(out), without a device, writes all devices");
  write_trace_json(out, events(), device, state_->dropped_so_far());
}

EnqueueMark EnqueueMark::recorded() {
  EnqueueMark mark;
  mark.began = std::chrono::steady_clock::now();
  mark.thread = thread_number();
  return mark;
}

void TraceSpan::begin(const char* name, int device, int stream, const TraceWork& work, const EnqueueMark& mark) {
  Recording& recording = recording_.emplace(Recording{name, device, stream, work, mark, {}, {}});
  {
    const std::scoped_lock lock(states_mutex);
    recording.states = recording_states;
  }
  if (device == kCpu) recording.stream = thread_number();
  recording.began = std::chrono::steady_clock::now();
}

void TraceSpan::end() noexcept {
  const Trace::State::Record record = {
      recording_->name, recording_->device, recording_->stream, recording_->began, std::chrono::steady_clock::now(),
      recording_->mark, recording_->work};
  for (const auto& state : recording_->states)
    if (state) state->add(record);
}

TraceWork trace_of(const LaunchInfo& launch) noexcept {
  TraceWork work = {.flops = launch.flops};
  if (!detail::trace_records.load(std::memory_order_relaxed)) return work;
  for (const MemoryAccess& access : launch.accesses) work.bytes += access.region.bytes();
  return work;
}

TraceWork trace_of(const Matmul& matmul) noexcept {
  const auto elements = [&](std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return std::size_t(rows * columns * (stride == 0 ? 1 : matmul.batch));
  };
  const std::size_t c = elements(matmul.m, matmul.n, matmul.stride_c);
  const std::size_t factors =
      elements(matmul.m, matmul.k, matmul.stride_a) + elements(matmul.k, matmul.n, matmul.stride_b);
  const std::size_t written = (matmul.beta == 0 ? c : 2 * c) + (matmul.bias ? std::size_t(matmul.n) : 0);
  return {.flops = 2. * double(matmul.m) * double(matmul.n) * double(matmul.k) * double(matmul.batch),
          .bytes = factors * size_of(matmul.dtype) + written * size_of(matmul.output())};
}

TraceWork trace_of(const FusedOp& op) noexcept {
  TraceWork work = {.flops = op.flops};
  for (const FusedOperand& operand : op.operands) {
    if (!operand.present) continue;
    std::size_t bytes = size_of(operand.dtype);
    for (int i = 0; i < operand.sizes.rank(); ++i)
      if (operand.strides[i] != 0) bytes *= std::size_t(operand.sizes[i]);
    work.bytes += bytes;
  }
  return work;
}

TraceWork trace_of(const Copy& copy) noexcept {
  TraceKind kind = TraceKind::copy_between;
  if (copy.from_device == copy.to_device)
    kind = TraceKind::copy_within;
  else if (copy.from_device < 0)
    kind = copy.pinned ? TraceKind::copy_from_pinned : TraceKind::copy_from_host;
  else if (copy.to_device < 0)
    kind = TraceKind::copy_to_host;
  return {.kind = kind, .bytes = copy.bytes()};
}

TraceWork trace_of(const CollectiveCall& call, std::size_t rank) {
  std::size_t in = 0, out = 0;
  for (const MemoryAccess& access : accesses_of(call, rank))
    (access.kind == AccessKind::read ? in : out) += access.region.bytes() / size_of(call.dtype);
  return {.kind = TraceKind::collective,
          .bytes = bytes_of(call),
          .collective = TraceCollective{call.dtype, call.op, in, out, int(call.first_rank + rank), int(call.ranks)}};
}

}  // namespace lockstep
