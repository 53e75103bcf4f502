// Processes with randomly delayed messages. A process that throws ends the job, as an exception that leaves a real
// process's World does.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/transport.h"
#include "support/in_processes.h"

namespace lockstep::testing {

/// Wraps a transport, and delays each call by a random time of up to `longest`; every fourth call by `longest`.
class DelayedTransport final : public Transport {
 public:
  DelayedTransport(std::shared_ptr<Transport> inner, std::uint64_t seed, std::chrono::microseconds longest)
      : inner_(std::move(inner)), random_(seed * 31 + std::uint64_t(inner_->rank())), longest_(longest) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  const std::string& host(int process) const override { return inner_->host(process); }
  std::chrono::milliseconds time_limit() const noexcept override { return inner_->time_limit(); }
  PendingMessage send(int to, int channel, const void* data, std::size_t bytes) override {
    delay();
    return inner_->send(to, channel, data, bytes);
  }
  PendingMessage receive(int from, int channel, void* data, std::size_t bytes) override {
    delay();
    return inner_->receive(from, channel, data, bytes);
  }
  std::size_t wait_any(std::span<const PendingMessage> messages, const char* what) override {
    return inner_->wait_any(messages, what);
  }
  void fail(const std::string& reason) noexcept override { inner_->fail(reason); }
  std::optional<std::string> failure() const override { return inner_->failure(); }

 private:
  void delay() {
    std::chrono::microseconds time;
    {
      const std::scoped_lock lock(mutex_);
      const auto all = std::uint64_t(longest_.count());
      time = std::chrono::microseconds(random_() % 4 == 0 ? all : random_() % (all + 1));
    }
    std::this_thread::sleep_for(time);
  }

  const std::shared_ptr<Transport> inner_;
  std::mutex mutex_;
  std::mt19937_64 random_;
  const std::chrono::microseconds longest_;
};

/// Returns the exception of f in each process, as in_processes() does.
inline std::vector<std::exception_ptr> in_ending_processes(int count, std::uint64_t seed,
                                                           const std::function<void(const World& world)>& f) {
  return in_processes(count, [&](const World& own) {
    const World world(std::make_shared<DelayedTransport>(own.transport(), seed,
                                                         std::chrono::microseconds(seed % 2 == 0 ? 100 : 800)));
    try {
      f(world);
    } catch (...) {
      own.transport()->fail("process " + std::to_string(own.rank().value()) + " was ended by an exception");
      throw;
    }
  });
}

}  // namespace lockstep::testing
