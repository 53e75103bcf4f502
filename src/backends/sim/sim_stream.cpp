#include "backends/sim/sim_stream.h"

#include <cstring>
#include <utility>

#include <lockstep/core/rethrow.h>

#include "backends/sim/sim_collective.h"
#include "backends/sim/sim_memory.h"
#include "backends/sim/wait_awake.h"
#include "core/context.h"
#include "core/start_thread.h"
#include "core/text.h"
#include "cpu/fused_dispatch.h"
#include "cpu/memory.h"
#include "cpu/parallel.h"

namespace lockstep::sim {
namespace {

constexpr KernelContext kSerial = {};
constexpr int kPoison = 0xff;  // a NaN in every floating type
// How often a worker without a task yields before it sleeps. If devices share cores, another thread usually enqueues a
// task meanwhile, and waking the worker would take longer than that task.
constexpr int kTurns = 2;

std::minstd_rand engine(std::uint64_t seed, int device, int id) {
  std::seed_seq sequence{std::uint32_t(seed), std::uint32_t(seed >> 32), std::uint32_t(device), std::uint32_t(id)};
  return std::minstd_rand(sequence);
}

struct Runner {
  void operator()(KernelTask& task) const { task.body(kSerial); }
  void operator()(CopyTask& task) const { host::copy(kSerial, task.copy); }
  void operator()(PoisonTask& task) const { std::memset(task.memory, kPoison, task.bytes); }
  void operator()(Matmul& task) const { host::matmul(kSerial, task); }
  void operator()(std::unique_ptr<FusedTask>& task) const { host::fused(kSerial, task->op, task->workspace); }
  void operator()(WaitTask&) const {}
  void operator()(CollectiveTask&) const {}
  void operator()(FailTask&) const {}
};

// The trace's description of a task.
struct Describer {
  TraceWork operator()(const KernelTask& task) const { return {.flops = task.flops, .bytes = task.bytes}; }
  TraceWork operator()(const CopyTask& task) const {
    Copy copy = task.copy;
    if (task.staged) copy.from_device = kHost;
    return trace_of(copy);
  }
  TraceWork operator()(const PoisonTask& task) const { return {.kind = TraceKind::fill, .bytes = task.bytes}; }
  TraceWork operator()(const Matmul& task) const { return trace_of(task); }
  TraceWork operator()(const std::unique_ptr<FusedTask>& task) const { return trace_of(task->op); }
  TraceWork operator()(const WaitTask&) const { return {}; }
  TraceWork operator()(const CollectiveTask& task) const { return task.collective->traced(task.rank); }
  TraceWork operator()(const FailTask&) const { return {}; }
};

}  // namespace

SimStream::SimStream(int on_device, int stream_id, int number, Timing timing)
    : device(on_device),
      id(stream_id),
      index(number),
      device_name(Device::cuda(on_device).name()),
      name(text(device_name, " stream ", stream_id)),
      timing_(timing),
      random_(engine(timing.seed, on_device, stream_id)),
      worker_(start_thread(device_name, [this] { work(); })) {}

SimStream::~SimStream() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  task_pushed_.notify_one();
  worker_.join();
}

void SimStream::push(Task task) {
  {
    const std::scoped_lock lock(mutex_);
    if (!spare_) {
      const BackendError error("kernel", kLaunchFailure, device_name, "the host has no memory left");
      spare_ = std::make_shared<AsyncError>(std::make_exception_ptr(error), "kernel", device_name);
    }
    task.mark.end();
    if (context().shard) task.replica = context().replica;
    queue_.push_back(std::move(task));
    pushed_.fetch_add(1, std::memory_order_release);
  }
  task_pushed_.notify_one();  // without the lock, or the worker would wake up and wait for it
}

std::uint64_t SimStream::last_ticket() const { return pushed_.load(std::memory_order_acquire); }

void SimStream::wait_for_room(std::size_t staged_bytes) {
  const std::uint64_t pushed = last_ticket();
  if (pushed > kMaxTasks && !has_ended(pushed - kMaxTasks))
    wait_until_ended(pushed - kMaxTasks / 2);  // half of the limit at once, not one task each time
  if (staged_bytes == 0) return;
  std::unique_lock lock(staged_mutex_);
  while (!staged_.empty() && (has_ended(staged_.front().ticket) || staged_bytes_ + staged_bytes > kMaxStagedBytes)) {
    const Staged oldest = staged_.front();
    staged_.pop_front();
    staged_bytes_ -= oldest.bytes;
    lock.unlock();
    wait_until_ended(oldest.ticket);
    lock.lock();
  }
}

void SimStream::count_staged_bytes(std::size_t bytes) {
  const std::scoped_lock lock(staged_mutex_);
  staged_.push_back({last_ticket(), bytes});
  staged_bytes_ += bytes;
}

bool SimStream::has_ended(std::uint64_t ticket) const { return ended_.load(std::memory_order_acquire) >= ticket; }

void SimStream::wait_until_ended(std::uint64_t ticket) {
  if (wait_awake(timing_.awake, [&] { return has_ended(ticket); })) return;
  std::unique_lock lock(mutex_);
  Waiters& waiters = waiters_of(ticket);
  ++waiters.count;
  while (ended_ < ticket) waiters.ended.wait(lock);
  --waiters.count;
}

std::shared_ptr<AsyncError> SimStream::error_until(std::uint64_t ticket) const {
  const std::scoped_lock lock(mutex_);
  return error_ticket_ <= ticket ? live_error() : nullptr;
}

std::shared_ptr<AsyncError> SimStream::live_error() const { return error_ && !error_->is_cleared() ? error_ : nullptr; }

void SimStream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (queue_.empty()) {
      lock.unlock();
      for (int turn = 0; turn < kTurns && has_ended(last_ticket()); ++turn) std::this_thread::yield();
      lock.lock();
    }
    task_pushed_.wait(lock, [&] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    std::shared_ptr<AsyncError> error = live_error();
    {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      error = run(task, std::move(error));
      if (task.failure) *task.failure = error;
    }  // the task's destructor runs before the task counts as ended
    lock.lock();
    const std::uint64_t ticket = ended_ + 1;
    if (error != error_) {
      error_ = std::move(error);
      error_ticket_ = ticket;
    }
    ended_.store(ticket, std::memory_order_release);
    if (Waiters& waiters = waiters_of(ticket); waiters.count > 0) {
      lock.unlock();  // without the lock, as in push
      waiters.ended.notify_all();
      lock.lock();
    }
  }
}

// Runs the task, or skips it after an earlier error of the stream. Waits are not skipped, so that work enqueued while
// the host clears an error is still ordered. Collectives are not skipped, because they must fail on the other ranks
// too. Returns the stream's error after the task.
std::shared_ptr<AsyncError> SimStream::run(Task& task, std::shared_ptr<AsyncError> earlier) {
  if (!earlier) hold_back();
  if (const auto* wait = std::get_if<WaitTask>(&task.work)) {
    wait->stream->wait_until_ended(wait->ticket);
    const std::shared_ptr<AsyncError> awaited = wait->stream->error_until(wait->ticket);
    if (earlier && awaited && awaited != earlier) earlier->join(awaited);
    return earlier ? earlier : awaited;
  }
  const auto* const part = std::get_if<CollectiveTask>(&task.work);
  if (earlier && !part) return earlier;
  try {
    if (const auto* failing = std::get_if<FailTask>(&task.work)) {
      if (!failing->error->is_cleared()) return failing->error;
      std::rethrow_exception(failing->error->copy());  // reported before this task ran
    }
    const TraceSpan span(task.op, device, id, std::visit(Describer(), task.work), task.mark);
    if (part) return part->collective->run(part->rank, std::move(earlier));
    std::visit(Runner(), task.work);
  } catch (...) {
    return make_error(std::current_exception(), task);
  }
  return nullptr;
}

// Makes the error of a failed task. If there is no memory for it, returns the spare error.
std::shared_ptr<AsyncError> SimStream::make_error(std::exception_ptr failure, const Task& task) noexcept {
  try {
    if (task.replica) failure = detail::with_context(failure, text("in replica ", *task.replica, " on ", device_name));
    return std::make_shared<AsyncError>(std::move(failure), task.op, device_name);
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(spare_, nullptr);
  }
}

void SimStream::hold_back() {
  if (timing_.max_delay_us <= 0) return;
  const auto draw = random_();
  if (draw % 2 == 0) return;
  if (draw % 4 == 1) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % std::uint64_t(timing_.max_delay_us + 1)));
}

}  // namespace lockstep::sim
