// Transport: the one interface to MPI, or to any other library that moves bytes between processes.
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
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/ranked_mutex.h"

namespace lockstep {

/// A pending message. The transport uses the message's memory until the message is done or the transport has failed.
/// Therefore destroying a message that is not done may fail the transport.
class Message {
 public:
  virtual ~Message() = default;
  /// If the message is not done within the time limit, counted from this call, the transport fails, and this throws a
  /// CollectiveError that names the other process, its host and `what`.
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
  /// Waits, without a time limit, until one of these messages is done, and returns its number. They are messages of
  /// receive(), or null. If the transport fails, throws a CollectiveError that names `what`.
  virtual std::size_t wait_any(std::span<const PendingMessage> messages, const char* what) = 0;

  /// Ends all waits in this and the other processes with a CollectiveError; all later calls throw it too. If several
  /// calls give a reason, only the first counts.
  virtual void fail(const std::string& reason) noexcept = 0;

  /// Returns the first of kChannels unused channels. All processes get the same channels if they call this in the same
  /// order. World uses channel 0.
  static constexpr int kChannels = 1024;
  int new_channels() noexcept { return kChannels * next_++; }

  /// Returns the reason if the transport has failed. For threads that wait for something other than messages.
  virtual std::optional<std::string> failure() const = 0;

  /// World holds this lock during each of its collective calls, which use channel 0.
  RankedMutex<LockRank::world> exchange;

  /// The last error that World::agree() threw in this process.
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
