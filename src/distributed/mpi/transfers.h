// Transfers: the messages that MPI is sending and receiving. Only the MPI thread uses this class.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/mpi/job.h"

namespace lockstep::mpi {

/// The number of messages to and from one peer.
struct Counts {
  std::int64_t sent = 0;      ///< Messages to the peer that were passed to MPI.
  std::int64_t received = 0;  ///< Messages from the peer that MPI has completed.
};

class Transfers {
 public:
  Transfers(MPI_Comm communicator, const Members& members);

  void start(const std::shared_ptr<Transfer>& transfer);
  /// Returns true if any piece of any message was completed.
  bool advance(Handover& handover);

  /// The failure, if a peer's message had another size than expected; else nullopt.
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  bool any() const noexcept { return !requests_.empty(); }
  const Counts& counts(int peer) const { return counts_.at(std::size_t(peer)); }
  /// Returns true if a pending message can never complete, because `peer` has left with these counts of messages.
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
  std::vector<Piece> pieces_;  // pieces_[i] belongs to requests_[i]
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
  std::vector<Counts> counts_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::mpi
