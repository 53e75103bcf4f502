#include "distributed/mpi/transfers.h"

#include <algorithm>
#include <cstddef>

#include "core/text.h"
#include "distributed/mpi/call.h"

namespace lockstep::mpi {
namespace {

// MPI counts bytes in an int, so large messages need pieces. MPI transfers one piece while the next one is posted.
constexpr std::size_t kPieceBytes = std::size_t(64) << 20;

}  // namespace

Transfers::Transfers(MPI_Comm communicator, const Members& members)
    : communicator_(communicator), members_(members), counts_(std::size_t(members.size())) {}

// MPI matches the pieces in the order in which they were posted, but may complete the pieces of a message in any order.
void Transfers::start(const std::shared_ptr<Transfer>& transfer) {
  const bool sends = transfer->way == Transfer::Way::send;
  if (sends) ++counts_[std::size_t(transfer->peer)].sent;
  std::size_t begin = 0;
  do {
    const std::size_t bytes = std::min(kPieceBytes, transfer->bytes - begin);
    std::byte* const data = static_cast<std::byte*>(transfer->data) + begin;
    MPI_Request request = MPI_REQUEST_NULL;
    if (sends)
      check(MPI_Isend(data, int(bytes), MPI_BYTE, transfer->peer, transfer->channel, communicator_, &request),
            "MPI_Isend");
    else
      check(MPI_Irecv(data, int(bytes), MPI_BYTE, transfer->peer, transfer->channel, communicator_, &request),
            "MPI_Irecv");
    begin += bytes;
    ++transfer->pieces_left;
    requests_.push_back(request);
    pieces_.push_back({transfer, int(bytes)});
  } while (begin < transfer->bytes);
}

bool Transfers::advance(Handover& handover) {
  if (requests_.empty()) return false;
  ended_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(int(requests_.size()), requests_.data(), &count, ended_.data(), statuses_.data());
  if (count == MPI_UNDEFINED || count == 0) return false;
  for (int e = 0; e < count; ++e) {
    const std::size_t at = std::size_t(ended_[std::size_t(e)]);
    MPI_Status& status = statuses_[std::size_t(e)];
    if (code != MPI_ERR_IN_STATUS) status.MPI_ERROR = code;
    end(pieces_[at], status, handover);
    pieces_[at].transfer = nullptr;
  }
  std::erase_if(pieces_, [](const Piece& piece) { return !piece.transfer; });
  std::erase(requests_, MPI_REQUEST_NULL);
  return true;
}

void Transfers::end(const Piece& piece, const MPI_Status& status, Handover& handover) {
  Transfer& transfer = *piece.transfer;
  const bool receives = transfer.way == Transfer::Way::receive;
  int bytes = piece.bytes;
  if (receives && status.MPI_ERROR == MPI_ERR_TRUNCATE) return refuse_size(piece, "more");
  check(status.MPI_ERROR, "MPI_Testsome");
  if (receives) check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  if (bytes != piece.bytes) return refuse_size(piece, text(bytes));
  if (--transfer.pieces_left > 0) return;
  if (receives) ++counts_[std::size_t(transfer.peer)].received;
  handover.done(transfer);
}

void Transfers::refuse_size(const Piece& piece, const std::string& got) {
  const int peer = piece.transfer->peer;
  failure_ = {peer, text(members_.me(), " expected ", piece.bytes, " bytes from ", members_.name(peer), " on channel ",
                         piece.transfer->channel, ", got ", got)};
}

bool Transfers::waits_in_vain_for(int peer, const Counts& of_peer) const {
  const Counts& mine = counts(peer);
  return std::ranges::any_of(pieces_, [&](const Piece& piece) {
    if (piece.transfer->peer != peer) return false;
    return piece.transfer->way == Transfer::Way::send ? mine.sent > of_peer.received : mine.received == of_peer.sent;
  });
}

}  // namespace lockstep::mpi
