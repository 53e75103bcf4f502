// The Transport over MPI: the callers' side. Safe from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "distributed/mpi/job.h"
#include "distributed/mpi/termination.h"
#include "distributed/transport.h"

namespace lockstep::mpi {

class MpiTransport final : public Transport {
 public:
  /// `thread` already runs and calls MPI.
  MpiTransport(std::shared_ptr<Job> job, std::thread thread);
  ~MpiTransport() override;

  int rank() const noexcept override { return job_->members.rank; }
  int size() const noexcept override { return job_->members.size(); }
  const std::string& host(int process) const override { return job_->members.hosts.at(std::size_t(process)); }
  std::chrono::milliseconds time_limit() const noexcept override { return job_->limit; }

  PendingMessage send(int to, int channel, const void* data, std::size_t bytes) override;
  PendingMessage receive(int from, int channel, void* data, std::size_t bytes) override;
  std::size_t wait_any(std::span<const PendingMessage> messages, const char* what) override;
  void fail(const std::string& reason) noexcept override;
  std::optional<std::string> failure() const override;

  /// Returns when all processes have left and MPI has ended; at once if the job has failed. Ends the process if MPI
  /// hangs.
  void leave() noexcept;

 private:
  PendingMessage start(Transfer::Way way, int peer, int channel, void* data, std::size_t bytes);

  const std::shared_ptr<Job> job_;
  std::thread thread_;
  const Termination termination_;
  const int process_id_;  // a forked child does not have the thread
  std::atomic<bool> left_ = false;
};

}  // namespace lockstep::mpi
