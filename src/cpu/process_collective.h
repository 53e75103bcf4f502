// One process's part of a collective operation of several processes, on memory that the host can read. It moves bytes
// between processes. It sums in rank order, so that the sums have the same bits as in one process with all devices.
//
// Each process sums one slice of the elements: it receives the slice from each rank of the other processes, adds the
// slices of all ranks in rank order, and sends the sum to the other processes. All processes send and add at the same
// time. The latency of a sum is two messages for any number of processes. With P processes of D ranks each, a process
// sends (D + 1) (P - 1) / P of the bytes. (With D = 1 that is 2 (P - 1) / P, as in the ring of Patarasuk and Yuan, J.
// Parallel Distrib. Comput. 69 (2009), which adds every slice in another order.) If the data are small, every process
// sends them to every other process, and each process sums all of them. Then the latency is that of one message.
// docs/many-hosts.md has the costs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cpu/reduce_ranks.h"
#include "distributed/transport.h"
#include "runtime/backend.h"

namespace lockstep::host {

class ProcessCollective {
 public:
  /// `sequence` numbers the operations of the communicator. Copies the call's arrays.
  ProcessCollective(const CollectiveCall& call, const Peers& peers, std::size_t sequence);

  /// Runs the whole operation, waiting for the other processes. Throws CollectiveError.
  void run();
  /// "process N on HOST": this process.
  std::string process_name() const;
  /// Makes this collective, and all other operations between the processes, fail in all processes.
  void fail(const std::string& reason) noexcept { transport_->fail(reason); }

 private:
  struct Span {  // a range of elements in each rank's memory
    std::size_t first = 0, count = 0;
  };
  class Sums;

  void all_reduce();
  void reduce();
  void reduce_scatter();
  void pass_on(const void* source, std::size_t owner, std::vector<void*> targets, std::size_t count);
  void all_gather();
  void exchange();

  bool is_here(std::size_t rank) const { return rank >= first_rank_ && rank - first_rank_ < sends_.size(); }
  std::size_t process_of(std::size_t rank) const;
  PendingMessage send(std::size_t to, const void* data, std::size_t bytes) const;
  PendingMessage receive(std::size_t from, void* data, std::size_t bytes) const;
  std::vector<void*> all_targets(std::size_t offset) const;

  const CollectiveKind kind_;
  const char* const name_;
  const DType dtype_;
  const ReduceOp op_;
  const std::size_t count_, first_rank_, root_;
  const std::vector<std::size_t> counts_, devices_;
  const std::vector<Transfer> transfers_;
  std::vector<const void*> sends_;
  std::vector<void*> receives_;
  const std::shared_ptr<Transport> transport_;
  const int channel_;
  const std::size_t process_, processes_;
};

}  // namespace lockstep::host
