#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/distributed/mpi.h>

#include "core/start_thread.h"
#include "core/text.h"
#include "distributed/mpi/attributes.h"
#include "distributed/mpi/launcher.h"
#include "distributed/mpi/mpi_thread.h"
#include "distributed/mpi/mpi_transport.h"

namespace lockstep::mpi {
namespace {

using std::chrono::milliseconds;

milliseconds time_limit(const JoinOptions& options) {
  constexpr const char* kVariable = "LOCKSTEP_TIME_LIMIT";
  const char* const value = std::getenv(kVariable);
  if (!value) {
    if (options.time_limit > milliseconds(0)) return options.time_limit;
    throw InvalidArgument(text("[mpi::join] expected a time limit above 0 ms, got ", options.time_limit.count()));
  }
  double seconds = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), seconds);
  if (error != std::errc() || *end || !std::isfinite(seconds) || seconds < 0.001 || seconds > 1e9)
    throw InvalidArgument(text('[', kVariable, "] expected a number of seconds above 0, got \"", value, '"'));
  return milliseconds(std::llround(seconds * 1000));
}

// This process's membership in a job. There is at most one in the life of a process, because MPI can be initialized and
// finalized only once.
struct Membership {
  std::mutex mutex;
  bool began = false;
  bool is_alone = false;
  std::weak_ptr<MpiTransport> transport;
  std::shared_ptr<Start> refused;
};

Membership& membership() {
  static Membership one;
  return one;
}

void leave_at_exit() {
  if (const std::shared_ptr<MpiTransport> transport = membership().transport.lock()) transport->leave();
}

// After join() has thrown, MPI is finalized only at exit(). MPI_Finalize waits for all processes, so no process ends
// before all have reported the error. (mpirun kills the others as soon as one process ends with a failure.)
void end_at_exit(std::shared_ptr<Start> refused, milliseconds limit) {
  static const milliseconds longest = limit;
  static const pid_t process_id = ::getpid();
  membership().refused = std::move(refused);
  std::atexit([] {
    if (::getpid() != process_id) return;
    Start& start = *membership().refused;
    start.program_ends.set_value();
    start.ended.get_future().wait_for(longest);
  });
}

// Starting up gets at least 30 s, even if the time limit is shorter.
constexpr milliseconds kStartLimit = std::chrono::seconds(30);

// Returns null for a process that no launcher started.
std::shared_ptr<MpiTransport> begin(milliseconds limit) {
  const auto start = std::make_shared<Start>();
  std::future<std::shared_ptr<Job>> joined = start->joined.get_future();
  std::thread thread = start_thread("MPI", [start, limit] { run_mpi(start, limit); });
  const milliseconds start_limit = std::max(limit, kStartLimit);
  if (joined.wait_for(start_limit) == std::future_status::timeout) {
    thread.detach();
    throw CollectiveError(0, "mpi::join", 0,
                          text("not all processes called mpi::join within ", start_limit.count(), " ms"));
  }
  try {
    if (std::shared_ptr<Job> job = joined.get())
      return std::make_shared<MpiTransport>(std::move(job), std::move(thread));
  } catch (...) {
    thread.detach();
    end_at_exit(start, limit);
    throw;
  }
  thread.join();
  return nullptr;
}

}  // namespace

World join(const JoinOptions& options) {
  const milliseconds limit = time_limit(options);
  Membership& present = membership();
  const std::scoped_lock lock(present.mutex);
  if (std::shared_ptr<MpiTransport> transport = present.transport.lock()) return World(std::move(transport));
  if (present.is_alone) return World();
  if (present.began)
    throw InvalidArgument(
        "[mpi::join] this process has already left its job, or failed to join it, and MPI starts only once per "
        "process: keep the World until the program's last use of it");
  if (!is_launched(local_attributes(limit))) return World();
  present.began = true;
  std::shared_ptr<MpiTransport> transport = begin(limit);
  present.is_alone = !transport;
  if (!transport) return World();
  present.transport = transport;
  std::atexit(leave_at_exit);
  return World(std::move(transport));
}

}  // namespace lockstep::mpi
