#include "distributed/mpi/control_channel.h"

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "distributed/mpi/call.h"

namespace lockstep::mpi {
namespace {

constexpr int kTag = 0;
constexpr int kSignsWithinLimit = 10;
constexpr std::chrono::milliseconds kLongestFarewell(100);

}  // namespace

ControlChannel::ControlChannel(MPI_Comm communicator, Datagrams& datagrams, const Members& members,
                               std::chrono::milliseconds limit)
    : communicator_(communicator),
      datagrams_(datagrams),
      members_(members),
      limit_(limit),
      peers_(std::size_t(members.size())) {
  for (Peer& peer : peers_) peer.heard = Clock::now();
  for (int p = 0; p < members.size(); ++p)
    if (p != members.rank) others_.push_back(p);
  receive_next();
}

std::optional<Failure> ControlChannel::step(Clock::time_point now, std::optional<int> waits_for) {
  receive_datagrams(now);
  if (!avoids_mpi_ && !failure_) {
    receive_by_mpi(now);
    end_sent();
  }
  if (now >= next_sign_) {
    next_sign_ = now + limit_ / kSignsWithinLimit;
    for (const int peer : others_) send_sign(peer, waits_for.value_or(kNobody));
  }
  if (!failure_ && !silent_for(limit_, now).empty()) {
    const std::vector<int> silent = silent_for(limit_ / 2, now);  // names all processes of a host that is lost
    failure_ = Failure{silent.front(), text(members_.any_of(silent), " is lost: no sign of life within ",
                                            limit_.count(), " ms, as ", members_.me(), " noticed")};
  }
  return failure_;
}

void ControlChannel::receive_datagrams(Clock::time_point now) {
  Note note;
  while (const std::optional<int> from = datagrams_.receive(&note, sizeof note)) {
    Peer& peer = peers_[std::size_t(*from)];
    peer.hears = note.hears_datagrams;
    handle(*from, note, now);
    if (!std::exchange(peer.is_heard, true)) send(*from, {.kind = Kind::hello});
  }
}

void ControlChannel::receive_by_mpi(Clock::time_point now) {
  for (int came = 1; came && !failure_;) {
    MPI_Status status;
    check(MPI_Test(&receiving_, &came, &status), "MPI_Test");
    if (!came) return;
    const Note note = incoming_;
    receive_next();
    handle(status.MPI_SOURCE, note, now);
  }
}

void ControlChannel::handle(int from, const Note& note, Clock::time_point now) {
  Peer& peer = peers_[std::size_t(from)];
  peer.heard = now;
  if (note.kind == Kind::ping) send(from, {.kind = Kind::answer, .number = note.number});
  if (note.kind == Kind::sign_of_life) peer.waits_for = note.number;
  if (note.kind == Kind::answer) peer.answered = note.number;
  if (note.kind == Kind::left) {
    peer.left = true;
    peer.last_counts = note.counts;
  }
  if (note.kind == Kind::failed) failure_ = Failure{note.number, note.reason.data()};
}

void ControlChannel::ping() {
  ++ping_;
  avoids_mpi_ = mpi_has_failed_ || std::ranges::all_of(others_, [this](int p) { return peers_[std::size_t(p)].hears; });
  for (const int peer : others_) send(peer, {.kind = Kind::ping, .number = ping_});
}

void ControlChannel::ping_without_mpi() {
  mpi_has_failed_ = true;
  ping();
}

std::vector<int> ControlChannel::unanswered() const {
  std::vector<int> unanswered = others_;
  std::erase_if(unanswered, [this](int p) { return has_left(p) || peers_[std::size_t(p)].answered == ping_; });
  return unanswered;
}

std::vector<int> ControlChannel::silent_for(Clock::duration time, Clock::time_point now) const {
  std::vector<int> silent = others_;
  std::erase_if(silent, [&](int p) { return has_left(p) || now - peers_[std::size_t(p)].heard <= time; });
  return silent;
}

int ControlChannel::root_cause_of(int peer) const {
  int last = peer;
  for (int steps = 0; steps < members_.size(); ++steps) {
    const int next = peers_[std::size_t(last)].waits_for;
    if (next == kNobody || next == members_.rank) return last;
    last = next;
  }
  return peer;  // the processes wait for each other in a cycle
}

void ControlChannel::say_left(const Transfers& transfers) {
  for (const int peer : others_) {
    const Counts& counts = transfers.counts(peer);
    send_by_mpi(peer, {.kind = Kind::left, .counts = counts});
  }
}

bool ControlChannel::have_all_left() const {
  return sent_.empty() && std::ranges::all_of(others_, [this](int peer) { return has_left(peer); });
}

void ControlChannel::say_failed(const Failure& failure) {
  Note note = {.kind = Kind::failed, .number = failure.process};
  failure.reason.copy(note.reason.data(), note.reason.size() - 1);
  for (const int peer : others_)
    if (peer != failure.process || peers_[std::size_t(peer)].hears) send(peer, note);
  const auto end = Clock::now() + kLongestFarewell;
  while (!avoids_mpi_ && !sent_.empty() && Clock::now() < end) end_sent();
}

void ControlChannel::close() {
  check(MPI_Cancel(&receiving_), "MPI_Cancel");
  check(MPI_Wait(&receiving_, MPI_STATUS_IGNORE), "MPI_Wait");
}

void ControlChannel::receive_next() {
  check(MPI_Irecv(&incoming_, int(sizeof incoming_), MPI_BYTE, MPI_ANY_SOURCE, kTag, communicator_, &receiving_),
        "MPI_Irecv");
}

void ControlChannel::send(int to, Note note) {
  const Peer& peer = peers_[std::size_t(to)];
  note.hears_datagrams = peer.is_heard;
  for (int copies = note.kind == Kind::failed ? 3 : 1; copies > 0; --copies) datagrams_.send(to, &note, sizeof note);
  if (!peer.hears && note.kind != Kind::hello) send_by_mpi(to, note);
}

void ControlChannel::send_by_mpi(int to, const Note& note) {
  if (mpi_has_failed_) return;
  Sent& sent = sent_.emplace_back(Sent{to, note});
  check(MPI_Isend(&sent.note, int(sizeof sent.note), MPI_BYTE, to, kTag, communicator_, &sent.request), "MPI_Isend");
}

// If the sign of life goes by MPI, and MPI has not sent the last one yet, sends none: a process that hangs receives
// nothing, and signs to it would pile up.
void ControlChannel::send_sign(int to, int waits_for) {
  Peer& peer = peers_[std::size_t(to)];
  if (!peer.hears && std::exchange(peer.sign_is_on_its_way, true)) return;
  send(to, {.kind = Kind::sign_of_life, .number = waits_for});
}

void ControlChannel::end_sent() {
  std::erase_if(sent_, [this](Sent& sent) {
    int is_done = 0;
    check(MPI_Test(&sent.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done && sent.note.kind == Kind::sign_of_life) peers_[std::size_t(sent.to)].sign_is_on_its_way = false;
    return is_done != 0;
  });
}

}  // namespace lockstep::mpi
