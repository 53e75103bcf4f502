// Control notes between the processes of a job, apart from the messages of users. A note says that its sender is alive,
// leaves the job, or has seen a failure. Notes go as datagrams, and also by MPI as long as datagrams do not reach the
// peer; the note of leaving goes by MPI alone. Only the MPI thread uses this class.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "distributed/mpi/datagrams.h"
#include "distributed/mpi/job.h"
#include "distributed/mpi/transfers.h"

namespace lockstep::mpi {

class ControlChannel {
 public:
  ControlChannel(MPI_Comm communicator, Datagrams& datagrams, const Members& members, std::chrono::milliseconds limit);

  /// Receives notes and answers them. Periodically sends a sign of life, which names the peer that this process waits
  /// for. Returns a failure if a peer has reported one, or if a peer was silent for the time limit.
  std::optional<Failure> step(Clock::time_point now, std::optional<int> waits_for);

  /// Pings all peers. If datagrams reach all peers, MPI is not used any more, because it might send to a peer that has
  /// died.
  void ping();
  /// Pings like ping(), but never uses MPI, even if datagrams do not reach all peers.
  void ping_without_mpi();
  bool avoids_mpi() const noexcept { return avoids_mpi_; }
  /// Returns the peers that have not left and have not answered the last ping.
  std::vector<int> unanswered() const;

  /// If `peer` waits for a process, that one for another, and so on, returns the last of them, which waits for nobody.
  int root_cause_of(int peer) const;

  void say_left(const Transfers& transfers);
  bool have_all_left() const;
  bool has_left(int peer) const { return peers_.at(std::size_t(peer)).left; }
  /// The message counts that a peer sent when it left.
  const Counts& last_counts(int peer) const { return peers_.at(std::size_t(peer)).last_counts; }

  /// Sends the failure to all peers. Returns when MPI has sent it, or after a short time.
  void say_failed(const Failure& failure);
  /// Cancels the pending receive; call it before MPI_Finalize.
  void close();

 private:
  enum class Kind : int { hello, sign_of_life, ping, answer, left, failed };
  struct Note {
    Kind kind = Kind::hello;
    int number = 0;                // of a ping; of the process that caused a failure, or that the sender waits for
    bool hears_datagrams = false;  // the sender has received datagrams from the receiver
    Counts counts = {};            // in `left`: the messages exchanged with the receiver
    std::array<char, 488> reason = {};
  };
  static constexpr int kNobody = -1;
  struct Peer {
    Clock::time_point heard;
    bool left = false;
    Counts last_counts;
    int answered = 0;  // the number of the last ping answered
    int waits_for = kNobody;
    bool is_heard = false, hears = false;  // this process hears the peer's datagrams; the peer hears this process's
    bool sign_is_on_its_way = false;       // MPI has not yet sent the last sign of life
  };
  struct Sent {
    int to;
    Note note;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void receive_next();
  void handle(int from, const Note& note, Clock::time_point now);
  void receive_datagrams(Clock::time_point now);
  void receive_by_mpi(Clock::time_point now);
  void send(int to, Note note);
  void send_by_mpi(int to, const Note& note);
  void send_sign(int to, int waits_for);
  void end_sent();
  /// Returns the peers that have not left, and from which no note has arrived for longer than `time`.
  std::vector<int> silent_for(Clock::duration time, Clock::time_point now) const;

  const MPI_Comm communicator_;
  Datagrams& datagrams_;
  const Members& members_;
  const std::chrono::milliseconds limit_;
  std::vector<Peer> peers_;
  std::vector<int> others_;
  int ping_ = 0;  // the number of the last ping
  bool avoids_mpi_ = false, mpi_has_failed_ = false;
  std::list<Sent> sent_;  // notes that MPI is still sending from this memory
  Note incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  Clock::time_point next_sign_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::mpi
