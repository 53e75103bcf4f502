#include "backends/sim/sim_backend.h"

#include <lockstep/core/error.h>

#include <cstdio>
#include <thread>
#include <utility>

#include "core/text.h"

namespace lockstep {

using sim::AsyncError;
using sim::FaultKind;
using sim::SimStream;

namespace {

const SimulationOptions& checked(const SimulationOptions& options) {
  if (options.count < 1 || options.count > 64)
    throw InvalidArgument(text("[sim] expected a count of devices from 1 to 64, got ", options.count));
  if (options.max_delay_us < 0)
    throw InvalidArgument(text("[sim] expected max_delay_us of at least 0, got ", options.max_delay_us));
  return options;
}

// How long a waiting thread polls before it sleeps. Cooperating streams often wait, mostly for less than two matrix
// products, and waking a thread takes long. But if devices share cores, polling takes the core from another device.
std::chrono::microseconds time_awake(int devices) {
  const bool a_core_each = unsigned(devices) <= std::thread::hardware_concurrency();
  return std::chrono::microseconds(a_core_each ? 4000 : 0);
}

}  // namespace

std::shared_ptr<Backend> make_sim_backend(const SimulationOptions& options) {
  return std::make_shared<SimBackend>(options);
}

SimBackend::SimBackend(const SimulationOptions& options)
    : options_(checked(options)),
      awake_(time_awake(options.count)),
      memory_(options.count, options.memory_bytes),
      faults_(options.count),
      links_(options.count),
      losses_(std::size_t(options.count)) {}

SimBackend::~SimBackend() {
  drain();
  release_unused();
}

bool SimBackend::is_lost(int device) noexcept {
  const std::scoped_lock lock(mutex_);
  return faults_.is_lost(device);
}

DeviceProperties SimBackend::properties(int) const {
  return {"Simulated GPU", options_.memory_bytes,
          "set SimulationOptions::memory_bytes, or LOCKSTEP_DEVICES=sim:N,8GiB, for more"};
}

// Memory.

void* SimBackend::allocate(int device, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (!faults_.is_lost(device)) return memory_.allocate(device, bytes);
  lock.unlock();
  refuse_allocation(device);
}

// Throws the error of the device's loss, and clears the error, so that the host does not get it twice.
void SimBackend::refuse_allocation(int device) {
  let_through(device);
  const std::scoped_lock lock(mutex_);
  if (const auto& loss = losses_[std::size_t(device)]) loss->clear();
  throw BackendError("allocate", sim::kDeviceLost, Device::cuda(device).name(), "the device is lost");
}

void SimBackend::deallocate(int device, void* memory, std::size_t bytes) noexcept {
  if (memory != nullptr) release("deallocate", device, memory, bytes);
}

// Waits for the device's own work only, as cudaFree does, and for no work if the memory is page-locked. If other work
// still uses the memory, the program gets the RaceError below. So that it does not really access freed memory, this is
// kept until that work has ended.
void SimBackend::release(const char* op, int device, void* memory, std::size_t bytes) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (!memory_.disown(device, memory)) {
      const std::string expected =
          device == sim::kHost ? "page-locked memory" : text("allocation of ", Device::cuda(device));
      std::fprintf(stderr, "[sim] '%s' of %p, which is no %s: ignored\n", op, memory, expected.c_str());
      return;
    }
  }
  std::vector<Moment> moments = everything();
  const auto is_own = [device](const Moment& moment) { return moment.stream->device == device; };
  for (const Moment& moment : moments)
    if (is_own(moment)) moment.stream->wait_until_ended(moment.ticket);
  {
    const std::scoped_lock lock(mutex_);
    for (const Moment& moment : moments)
      if (is_own(moment)) races_.host_synchronized(moment.clock);
    forget(op, memory, bytes);
    freed_.push_back({memory, std::move(moments)});
  }
  release_unused();
}

void SimBackend::release_unused() noexcept {
  const auto has_ended = [](const Moment& moment) { return moment.stream->has_ended(moment.ticket); };
  const std::scoped_lock lock(mutex_);
  std::erase_if(freed_, [&](const Freed& freed) {
    if (!std::ranges::all_of(freed.users, has_ended)) return false;
    sim::SimMemory::release(freed.memory);
    return true;
  });
}

// Call this with the lock held. If work that the host has not waited for uses the freed memory, that work's stream gets
// a RaceError.
void SimBackend::forget(const char* op, void* memory, std::size_t bytes) noexcept {
  sim::RaceChecker::Unfinished unfinished;
  if (options_.check_races && races_.forget(op, {memory, bytes, 1, 0}, unfinished))
    fail(*streams_[std::size_t(unfinished.stream)], op,
         std::make_exception_ptr(RaceError(std::move(unfinished.message))));
}

void* SimBackend::allocate_pinned(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  return memory_.allocate(sim::kHost, bytes);
}

void SimBackend::deallocate_pinned(void* memory, std::size_t bytes) noexcept {
  release("deallocate_pinned", sim::kHost, memory, bytes);
}

void SimBackend::host_writes(const void* memory, std::size_t bytes) {
  if (!options_.check_races) return;
  const std::scoped_lock lock(mutex_);
  races_.host_writes({memory, bytes, 1, 0});
}

bool SimBackend::admits(int device, std::size_t) {
  std::unique_lock lock(mutex_);
  const sim::Faults::Verdict verdict = faults_.next(FaultKind::allocation, device);
  lock.unlock();
  if (verdict == sim::Faults::Verdict::lost) refuse_allocation(device);
  return verdict == sim::Faults::Verdict::works;
}

void SimBackend::discard(StreamHandle handle, void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr || bytes == 0) return;
  const EnqueueMark mark = EnqueueMark::begin();
  SimStream& stream = stream_of(handle);
  std::exception_ptr error;
  try {
    if (graphs_.capture(handle, [=, this] { discard(handle, memory, bytes); })) return;
    const std::scoped_lock lock(mutex_);
    const MemoryAccess access = {{memory, bytes, 1, 0}, AccessKind::write};
    declare(stream, "discard", {&access, 1});
    if (options_.poison) stream.push({"discard", sim::PoisonTask{memory, bytes}, nullptr, mark});
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) return;
  const std::scoped_lock lock(mutex_);
  fail(stream, "discard", std::move(error));
}

// Streams and events.

void* SimBackend::create_stream(int device, int id, StreamPriority) {
  const std::scoped_lock lock(mutex_);
  const SimStream::Timing timing = {options_.seed, options_.max_delay_us, awake_};
  streams_.push_back(std::make_unique<SimStream>(device, id, int(streams_.size()), timing));
  races_.add_stream(streams_.back()->name);
  return streams_.back().get();
}

bool SimBackend::query_stream(StreamHandle handle) {
  graphs_.refuse("a query whether work has ended", handle);
  Moment moment;
  {
    const std::scoped_lock lock(mutex_);
    moment = now(stream_of(handle));
  }
  if (!moment.stream->has_ended(moment.ticket)) return false;
  reach(moment);
  return true;
}

void SimBackend::synchronize_stream(StreamHandle handle) {
  graphs_.refuse("a wait of the host", handle);
  SimStream& stream = stream_of(handle);
  Moment moment;
  {
    const std::scoped_lock lock(mutex_);
    faults_.next(FaultKind::host_wait, stream.device);
    moment = now(stream);
  }
  reach(moment);
}

EventHandle SimBackend::create_event(int) { return new Moment; }

void SimBackend::destroy_event(EventHandle event) noexcept {
  graphs_.forget(event);
  delete &moment_of(event);
}

void SimBackend::record(EventHandle event, StreamHandle handle) {
  if (graphs_.capture_record(event, handle)) return;
  SimStream& stream = stream_of(handle);
  const std::scoped_lock lock(mutex_);
  Moment& moment = moment_of(event);
  if (faults_.next(FaultKind::record, stream.device) != sim::Faults::Verdict::works) {
    moment.stream = nullptr;
    return;
  }
  moment.stream = &stream;
  moment.ticket = stream.last_ticket();
  if (options_.check_races) moment.clock = races_.now(stream.index);
}

void SimBackend::wait(StreamHandle handle, EventHandle event) {
  if (graphs_.capture_wait(handle, event)) return;
  SimStream& stream = stream_of(handle);
  const std::scoped_lock lock(mutex_);
  const Moment& moment = moment_of(event);
  const bool dropped = faults_.next(FaultKind::wait, stream.device) != sim::Faults::Verdict::works;
  if (dropped || moment.stream == nullptr || moment.stream == &stream) return;
  if (options_.check_races) races_.wait(stream.index, moment.clock);
  links_.link(stream.device, moment.stream->device);
  stream.push({"wait", sim::WaitTask{moment.stream, moment.ticket}});
}

// Does not throw the errors of the work: threads call query_event() while they release memory, and could not handle
// them.
bool SimBackend::query_event(EventHandle event) {
  graphs_.refuse("a query whether work has ended", event);
  Moment moment;
  {
    const std::scoped_lock lock(mutex_);
    moment = moment_of(event);
  }
  if (moment.stream == nullptr) return true;
  if (!moment.stream->has_ended(moment.ticket)) return false;
  wait_for(moment);
  return true;
}

// Does not advance the host's clock. If it did, an allocation that happens to find an event completed would hide that
// the program forgot to wait for other work of that stream.
bool SimBackend::query_use(EventHandle event, void* memory, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const Moment& moment = moment_of(event);
  if (moment.stream == nullptr) return true;
  if (!moment.stream->has_ended(moment.ticket)) return false;
  if (options_.check_races) races_.forget_before(moment.clock, {memory, bytes, 1, 0});
  return true;
}

void SimBackend::synchronize_event(EventHandle event) {
  graphs_.refuse("a wait of the host", event);
  Moment moment;
  {
    const std::scoped_lock lock(mutex_);
    moment = moment_of(event);
    if (moment.stream == nullptr) return;
    faults_.next(FaultKind::host_wait, moment.stream->device);
  }
  reach(moment);
}

// Functions beyond the Backend interface.

void SimBackend::inject(FaultKind kind, const Fault& fault) {
  const std::scoped_lock lock(mutex_);
  faults_.inject(kind, fault);
}

void SimBackend::clear_faults() {
  const std::scoped_lock lock(mutex_);
  faults_.clear();
}

OperationCounts SimBackend::counts(int device) const {
  if (device < 0 || device >= options_.count)
    throw InvalidArgument(text("[sim] expected a device from 0 to ", options_.count - 1, ", got device ", device));
  const std::scoped_lock lock(mutex_);
  return faults_.counts(device);
}

std::size_t SimBackend::history_size() const {
  const std::scoped_lock lock(mutex_);
  return races_.history_size();
}

std::vector<std::exception_ptr> SimBackend::drain() {
  const std::vector<Moment> moments = everything();
  std::vector<std::exception_ptr> errors;
  for (const Moment& moment : moments) moment.stream->wait_until_ended(moment.ticket);
  for (const Moment& moment : moments) {
    const std::shared_ptr<AsyncError> error = wait_for(moment);
    if (!error) continue;
    error->clear();
    try {
      error->rethrow();
    } catch (...) {
      errors.push_back(std::current_exception());
    }
  }
  return errors;
}

SimBackend::Moment SimBackend::now(SimStream& stream) const {
  return {&stream, stream.last_ticket(), options_.check_races ? races_.now(stream.index) : sim::Clock()};
}

// The work of all streams that was enqueued so far.
std::vector<SimBackend::Moment> SimBackend::everything() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Moment> moments;
  for (const auto& stream : streams_) moments.push_back(now(*stream));
  return moments;
}

// Waits until the work has ended, and advances the host's clock. Returns the error of that work.
std::shared_ptr<AsyncError> SimBackend::wait_for(const Moment& moment) {
  moment.stream->wait_until_ended(moment.ticket);
  std::shared_ptr<AsyncError> error = moment.stream->error_until(moment.ticket);
  if (options_.check_races) {
    const std::scoped_lock lock(mutex_);
    races_.host_synchronized(moment.clock);
  }
  return error;
}

// As wait_for(), and throws the error.
void SimBackend::reach(const Moment& moment) {
  if (const std::shared_ptr<AsyncError> error = wait_for(moment)) clear_and_throw(*error, moment.stream->device);
}

// First waits until all work enqueued so far that may depend on work of the device, which failed, was run or skipped:
// it must be skipped, and would run if the error were cleared before.
void SimBackend::clear_and_throw(AsyncError& error, int device) {
  let_through(device);
  error.clear_and_throw();
}

// Does not wait for devices of other simulated processes: their work may wait for this host.
void SimBackend::let_through(int device) {
  std::vector<Moment> moments;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& stream : streams_)
      if (links_.are_linked(stream->device, device)) moments.push_back(now(*stream));
  }
  for (const Moment& each : moments) wait_for(each);
}

}  // namespace lockstep
