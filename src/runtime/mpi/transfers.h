// The messages that MPI has been given and has not ended. The thread of MPI alone.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mpi/handover.h"
#include "runtime/mpi/members.h"

namespace lockstep::mpi {

/// Of one peer: how many messages there were each way.
struct Counts {
  std::int64_t sent = 0;      ///< Given to MPI.
  std::int64_t received = 0;  ///< Ended.
};

class Transfers {
 public:
  Transfers(MPI_Comm communicator, const Members& members);

  void start(const std::shared_ptr<Transfer>& transfer);
  /// Whether any part of any ended.
  bool advance(Handover& handover);

  /// Sizes that disagreed.
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  bool any() const noexcept { return !requests_.empty(); }
  const Counts& counts(int peer) const { return counts_.at(std::size_t(peer)); }
  /// A message to or from a peer that has left, with these counts for this process, which will never come or be taken.
  bool waits_in_vain_for(int peer, const Counts& of_peer) const;

 private:
  struct Piece {
    std::shared_ptr<Transfer> transfer;
    int bytes;
  };

  void end(const Piece& piece, const MPI_Status& status, Handover& handover);
  void refuse_size(const Piece& piece, const std::string& got);

  const MPI_Comm communicator_;
  const Members& members_;
  std::vector<MPI_Request> requests_;
  std::vector<Piece> pieces_;  // of each request
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
  std::vector<Counts> counts_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::mpi
