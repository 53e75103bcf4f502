// What one process does of a collective of several, on memory that the host can read: it moves bytes from process to
// process, and adds up in the order of the ranks, so that sums have the bits of one process with all the devices.
//
// Sums go along a chain: a process adds its ranks to what those before it came to and sends that on; the last one has
// the sum, which goes back along the chain. Both are in pieces, so that all are at work at once, and each link carries
// the bytes once in each direction. (Patarasuk and Yuan's ring, J. Parallel Distrib. Comput. 69 (2009), would carry
// (P - 1) / P of them, but adds every piece in another order.) docs/many-hosts.md has what that costs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend.h"
#include "runtime/host/reduce_ranks.h"
#include "runtime/transport.h"

namespace lockstep::host {

class ProcessCollective {
 public:
  /// Number `sequence` of the communicator's. The call's arrays are copied.
  ProcessCollective(const CollectiveCall& call, const Peers& peers, std::size_t sequence);

  /// All of it, waiting for the other processes. Throws CollectiveError.
  void run();
  /// Ends it on all processes, and whatever else they do together.
  void fail(const std::string& reason) noexcept { transport_->fail(reason); }

 private:
  struct Span {  // of elements of all ranks' memory
    std::size_t first, count;
  };
  void add_up(std::vector<void*> targets, std::size_t owner, Span span);
  void pass_on(const void* source, std::size_t owner, std::vector<void*> targets, std::size_t count);
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
