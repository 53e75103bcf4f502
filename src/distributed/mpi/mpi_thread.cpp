#include "distributed/mpi/mpi_thread.h"

#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "distributed/mpi/attributes.h"
#include "distributed/mpi/call.h"
#include "distributed/mpi/datagrams.h"
#include "distributed/mpi/launcher.h"
#include "distributed/mpi/progress.h"

namespace lockstep::mpi {
namespace {

// MPI's lifetime: initializes and finalizes MPI, unless the program does so.
class Session {
 public:
  void begin() {
    int is_begun = 0, is_ended = 0, level = MPI_THREAD_SINGLE;
    check(MPI_Finalized(&is_ended), "MPI_Finalized");
    if (is_ended)
      throw InvalidArgument("[mpi::join] the program has already called MPI_Finalize: call mpi::join before it");
    check(MPI_Initialized(&is_begun), "MPI_Initialized");
    if (is_begun)
      check(MPI_Query_thread(&level), "MPI_Query_thread");
    else
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    is_own_ = !is_begun;
    if (level < MPI_THREAD_MULTIPLE)
      throw BackendError("MPI_Init_thread", level, "MPI",
                         text("expected the level MPI_THREAD_MULTIPLE (", MPI_THREAD_MULTIPLE, "), got ", level,
                              is_own_ ? ". Use an MPI library that was built with it"
                                      : ". Ask for it in the program's own call, or leave the call to mpi::join"));
  }
  void end() {
    if (std::exchange(is_own_, false)) MPI_Finalize();
  }

 private:
  bool is_own_ = false;
};

// Blocks SIGPIPE on this thread and on the threads that MPI starts, so that a write to a socket whose peer has died
// returns an error and does not end the process.
void block_sigpipe() {
  sigset_t only_this;
  sigemptyset(&only_this);
  sigaddset(&only_this, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &only_this, nullptr);
}

MPI_Comm copy_of_world() {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

std::vector<Attributes> exchanged(const Attributes& own, MPI_Comm communicator) {
  int processes = 0;
  check(MPI_Comm_size(communicator, &processes), "MPI_Comm_size");
  const std::string mine = packed(own);
  const int size = int(mine.size());
  std::vector<int> sizes(static_cast<std::size_t>(processes)), begins(sizes);
  check(MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, communicator), "MPI_Allgather");
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
  std::string all(std::size_t(begins.back() + sizes.back()), '\0');
  check(MPI_Allgatherv(mine.data(), size, MPI_CHAR, all.data(), sizes.data(), begins.data(), MPI_CHAR, communicator),
        "MPI_Allgatherv");
  std::vector<Attributes> by_rank;
  for (std::size_t p = 0; p < sizes.size(); ++p)
    by_rank.push_back(unpacked(all.substr(std::size_t(begins[p]), std::size_t(sizes[p]))));
  return by_rank;
}

Members members_of(const std::vector<Attributes>& by_rank, MPI_Comm communicator) {
  Members members;
  check(MPI_Comm_rank(communicator, &members.rank), "MPI_Comm_rank");
  for (const Attributes& attributes : by_rank) members.hosts.push_back(attributes.at(kHost));
  return members;
}

}  // namespace

void run_mpi(const std::shared_ptr<Start>& start, std::chrono::milliseconds limit) {
  ::prctl(PR_SET_TIMERSLACK, 1000);  // ns: allows short sleeps
  block_sigpipe();
  Session session;
  Communicators communicators = {};
  Datagrams datagrams;
  std::vector<Attributes> by_rank;
  std::shared_ptr<Job> job;
  try {
    session.begin();
    communicators = {.messages = copy_of_world(), .notes = copy_of_world()};
    Attributes own = local_attributes(limit);
    own[kDatagramAddress] = datagrams.address();
    by_rank = exchanged(own, communicators.messages);
    refuse_other_processes(by_rank);
    refuse_differences(by_rank);
    if (by_rank.size() > 1) job = std::make_shared<Job>(members_of(by_rank, communicators.messages), limit);
    if (job) datagrams.connect(by_rank, job->members.rank);
    start->joined.set_value(job);
  } catch (const std::exception&) {
    start->joined.set_exception(std::current_exception());
    start->program_ends.get_future().wait();
  }
  if (!job) {
    session.end();
    start->ended.set_value();
    return;
  }
  if (Progress(communicators, datagrams, by_rank, *job).run()) session.end();
  job->handover.ended();
}

}  // namespace lockstep::mpi
