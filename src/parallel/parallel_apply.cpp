#include <lockstep/parallel/parallel_apply.h>

#include <atomic>
#include <stdexcept>
#include <typeinfo>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/core/print.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"
#include "runtime/registry.h"

namespace lockstep {
namespace {

thread_local bool in_replica = false;

// What a replica's thread takes over from the caller's.
struct CallerContext {
  std::vector<Stream> streams;
  bool recording = grad_enabled();
  Generator base = draw(1);

  CallerContext() {
    for (int i = 0; i < cuda::device_count(); ++i)
      if (const Stream stream = current_stream(Device::cuda(i)); stream.id() != 0) streams.push_back(stream);
  }

  // Sequences of their own, far from the caller's and from each other.
  Generator generator(std::size_t replica) const {
    return {base.seed, base.stream + (std::uint64_t(replica) + 1) * 0x9E3779B97F4A7C15u, base.offset};
  }
};

// Another exception of exactly the type E, whose message says where it comes from; null for other types.
template <class E>
std::exception_ptr with_context(const std::exception& error, const std::string& where) {
  if (typeid(error) != typeid(E)) return nullptr;
  return std::make_exception_ptr(E(text(error.what(), " (", where, ")")));
}

std::exception_ptr with_context(const std::exception_ptr& failure, const std::string& where) {
  try {
    std::rethrow_exception(failure);
  } catch (Error& error) {
    error.add_context(where);
    return std::current_exception();
  } catch (const std::exception& error) {
    for (const auto convert :
         {&with_context<std::runtime_error>, &with_context<std::logic_error>, &with_context<std::invalid_argument>,
          &with_context<std::domain_error>, &with_context<std::length_error>, &with_context<std::out_of_range>,
          &with_context<std::range_error>, &with_context<std::overflow_error>, &with_context<std::underflow_error>})
      if (std::exception_ptr converted = convert(error, where)) return converted;
  } catch (...) {
  }
  return failure;  // a type of the user's: it stays as it is
}

[[noreturn]] void throw_lowest(const std::vector<std::exception_ptr>& failures, std::span<const Device> devices) {
  std::exception_ptr lowest;
  std::vector<std::exception_ptr> others;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (!failures[i]) continue;
    const std::exception_ptr located = with_context(failures[i], text("in replica ", i, " on ", devices[i]));
    if (lowest)
      others.push_back(located);
    else
      lowest = located;
  }
  try {
    std::rethrow_exception(lowest);
  } catch (Error& error) {
    for (const std::exception_ptr& other : others) error.attach(other);
    throw;
  }
}

}  // namespace

bool inside_replica() noexcept { return in_replica; }

void run_replicas(std::span<const Device> devices, const std::function<void(std::size_t)>& job) {
  const std::size_t count = devices.size();
  const CallerContext context;
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::string> printed(count);
  std::atomic<std::size_t> running = count;

  const auto run = [&](std::size_t i) {
    try {
      const GradMode mode(context.recording);
      std::vector<std::unique_ptr<StreamGuard>> guards;
      for (const Stream& stream : context.streams) guards.push_back(std::make_unique<StreamGuard>(stream));
      Generator generator = context.generator(i);
      const GeneratorGuard random(generator);
      const CapturePrint capture(printed[i]);
      const bool outer = std::exchange(in_replica, count > 1);
      try {
        job(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
      in_replica = outer;
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };

  if (count == 1) {
    run(0);
  } else {
    for (std::size_t i = 0; i < count; ++i)
      device_state(devices[i]).thread.submit([&, i] {
        run(i);
        --running;
        DeviceThread::notify();
      });
    DeviceThread::wait_until([&] { return running == 0; });
  }
  for (const std::string& text_of_replica : printed) print_text(text_of_replica);
  for (const std::exception_ptr& failure : failures)
    if (failure) throw_lowest(failures, devices);
}

}  // namespace lockstep
