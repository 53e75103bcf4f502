#include "distributed/mpi/termination.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <atomic>
#include <chrono>
#include <thread>

namespace lockstep::mpi {
namespace {

// This time plus the times to answer and to end (progress.cpp) is less than the second after which launchers kill.
constexpr std::chrono::milliseconds kTimeForOthers(300);

std::atomic<bool> requested = false;  // lock-free, so a signal handler may write it

extern "C" void take_note_of_sigterm(int) { requested = true; }

}  // namespace

Termination::Termination() {
  struct sigaction present = {};
  if (::sigaction(SIGTERM, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  struct sigaction handler = {};
  handler.sa_handler = take_note_of_sigterm;
  handler.sa_flags = SA_RESTART;
  handles_ = ::sigaction(SIGTERM, &handler, nullptr) == 0;
}

Termination::~Termination() {
  struct sigaction present = {};
  if (!handles_ || ::sigaction(SIGTERM, nullptr, &present) != 0 || present.sa_handler != take_note_of_sigterm) return;
  std::signal(SIGTERM, SIG_DFL);
}

bool Termination::is_requested() noexcept { return requested; }

void Termination::wait_for_peer_reports() noexcept { std::this_thread::sleep_for(kTimeForOthers); }

void Termination::end(const std::string& reason) noexcept {
  std::fprintf(stderr, "[SIGTERM] %s\n", reason.c_str());
  std::fflush(nullptr);
  wait_for_peer_reports();
  std::signal(SIGTERM, SIG_DFL);
  sigset_t only_this;
  sigemptyset(&only_this);
  sigaddset(&only_this, SIGTERM);
  ::pthread_sigmask(SIG_UNBLOCK, &only_this, nullptr);
  ::raise(SIGTERM);
  std::_Exit(128 + SIGTERM);
}

}  // namespace lockstep::mpi
