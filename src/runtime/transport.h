// What a way between processes must be able to do: the one seam between Lockstep and MPI, or whatever carries bytes.
//
// Any thread may call any function. Messages between two processes on one channel arrive in the order in which they
// were sent, and are received in the order in which receive() was called; their sizes must agree.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ranked_mutex.h"

namespace lockstep {

/// A message on its way. Its memory is the transport's until it is done, or until the transport has failed: to let go
/// of one that is not done may fail the transport.
class Message {
 public:
  virtual ~Message() = default;
  /// Throws CollectiveError naming the other process, its host and `what`, when it is not done within the time limit,
  /// counted from this call; the transport has failed then.
  virtual void wait(const char* what) = 0;
};

using PendingMessage = std::unique_ptr<Message>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const std::string& host(int process) const = 0;
  virtual std::chrono::milliseconds time_limit() const noexcept = 0;

  virtual PendingMessage send(int to, int channel, const void* data, std::size_t bytes) = 0;
  virtual PendingMessage receive(int from, int channel, void* data, std::size_t bytes) = 0;

  /// Whatever waits, here and in the other processes, ends with CollectiveError, and so does all that is called later.
  /// The first reason counts.
  virtual void fail(const std::string& reason) noexcept = 0;

  /// The first of kChannels channels that nobody has: the same in all processes, if they ask in the same order. World
  /// has 0.
  static constexpr int kChannels = 1024;
  int new_channels() noexcept { return kChannels * next_++; }

  /// Why it has failed: for whoever waits for something else than its messages.
  virtual std::optional<std::string> failure() const = 0;

  /// Held for the whole of what all processes do together on channel 0.
  RankedMutex<LockRank::world> exchange;

  /// What World::agree() threw last in this process.
  std::exception_ptr agreed_error() const noexcept {
    const std::scoped_lock lock(agreed_);
    return agreed_error_;
  }
  void set_agreed_error(std::exception_ptr error) noexcept {
    const std::scoped_lock lock(agreed_);
    agreed_error_ = std::move(error);
  }

 private:
  std::atomic<int> next_ = 1;
  mutable RankedMutex<LockRank::transport> agreed_;
  std::exception_ptr agreed_error_;
};

}  // namespace lockstep
