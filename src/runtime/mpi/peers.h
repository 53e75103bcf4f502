// What the processes of a job tell each other besides messages: that they are there, that they leave, that all is over.
// The thread of MPI alone.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mpi/datagrams.h"
#include "runtime/mpi/handover.h"
#include "runtime/mpi/members.h"
#include "runtime/mpi/transfers.h"

namespace lockstep::mpi {

class Peers {
 public:
  Peers(MPI_Comm communicator, Datagrams& datagrams, const Members& members, std::chrono::milliseconds limit);

  /// Takes what came, answers, and gives a sign of life when it is time: with the peer for which this process has
  /// waited for a while. The failure that a peer told of, or a peer from which nothing came within the limit.
  std::optional<Failure> step(Clock::time_point now, std::optional<int> waits_for);

  /// Asks all whether they are there. From here on MPI is left alone, if there is another way to all: it may meet a
  /// peer that has died.
  void ask();
  /// The same, even if there is no other way to all.
  void ask_without_mpi();
  void go_on_with_mpi() noexcept { mpi_is_gone_ = leaves_mpi_alone_ = false; }
  bool leaves_mpi_alone() const noexcept { return leaves_mpi_alone_; }
  /// Who has not answered the last question, of those that have not left.
  std::vector<int> silent() const;

  /// Whom `peer` waits for, or whom that one waits for: the first in the chain that waits for nobody.
  int to_blame_for(int peer) const;

  void say_left(const Transfers& transfers);
  bool have_all_left() const;
  bool has_left(int peer) const { return peers_.at(std::size_t(peer)).left; }
  /// What a peer that left said of its messages with this process.
  const Counts& last_counts(int peer) const { return peers_.at(std::size_t(peer)).last_counts; }

  /// Returns when MPI has it, or after a short time.
  void say_failed(const Failure& failure);
  /// Ends what MPI has of it: before MPI_Finalize.
  void close();

 private:
  enum class Kind : int { hello, sign_of_life, question, answer, left, failed };
  struct Note {
    Kind kind = Kind::hello;
    int number = 0;                // of a question and its answer; of the process to blame
    bool hears_datagrams = false;  // of the receiver
    Counts counts = {};            // with the receiver, of one that left
    std::array<char, 488> reason = {};
  };
  static constexpr int kNobody = -1;
  struct Peer {
    Clock::time_point heard;
    bool left = false;
    Counts last_counts;
    int answered = 0;  // the number of a question
    int waits_for = kNobody;
    bool is_heard = false, hears = false;  // its datagrams here, and there those of this process
    bool sign_is_on_its_way = false;       // by MPI
  };
  struct Sent {
    int to;
    Note note;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void receive_next();
  void take(int from, const Note& note, Clock::time_point now);
  void receive_datagrams(Clock::time_point now);
  void receive_by_mpi(Clock::time_point now);
  void send(int to, Note note);
  void send_by_mpi(int to, const Note& note);
  void send_sign(int to, int waits_for);
  void end_sent();

  const MPI_Comm communicator_;
  Datagrams& datagrams_;
  const Members& members_;
  const std::chrono::milliseconds limit_;
  std::vector<Peer> peers_;
  std::vector<int> others_;
  int question_ = 0;
  bool leaves_mpi_alone_ = false, mpi_is_gone_ = false;
  std::list<Sent> sent_;  // whose memory MPI reads
  Note incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  Clock::time_point next_sign_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::mpi
