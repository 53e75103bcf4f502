#include "mpi/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "support/temporary_folder.h"

namespace lockstep::testing {
namespace {

using Clock = std::chrono::steady_clock;

pid_t start(const std::vector<std::string>& words, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setpgid(0, 0);
  // Gives mpirun priority, if allowed: it kills a process that takes longer than a second to report a lost process.
  ::setpriority(PRIO_PROCESS, 0, -15);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

std::vector<std::string> Outcome::lines_with(const std::string& part) const {
  std::vector<std::string> found;
  for (std::size_t begin = 0; begin < output.size();) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    const std::string line = output.substr(begin, end - begin);
    if (line.find(part) != std::string::npos) found.push_back(line);
    begin = end + 1;
  }
  return found;
}

Outcome run(const std::vector<std::string>& words, const std::function<void(const std::string&)>& on_line,
            std::chrono::seconds longest) {
  const auto begin = Clock::now();
  std::array<int, 2> pipe = {};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const pid_t child = start(words, pipe[1]);
  ::close(pipe[1]);
  Outcome result;
  std::size_t line = 0;
  for (bool open = true; open;) {
    pollfd ready = {pipe[0], POLLIN, 0};
    ::poll(&ready, 1, 100);
    if (result.ended_in_time && Clock::now() - begin > longest) {
      result.ended_in_time = false;
      ::kill(child, SIGTERM);  // then mpirun ends its processes
      ::poll(nullptr, 0, 3000);
      ::kill(-child, SIGKILL);
    }
    if (!(ready.revents & (POLLIN | POLLHUP))) continue;
    std::array<char, 4096> buffer = {};
    const ssize_t count = ::read(pipe[0], buffer.data(), buffer.size());
    if (count > 0) result.output.append(buffer.data(), std::size_t(count));
    open = count > 0 || (count < 0 && errno == EINTR);
    for (std::size_t end; (end = result.output.find('\n', line)) != std::string::npos; line = end + 1)
      if (on_line) on_line(result.output.substr(line, end - line));
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  return result;
}

Outcome mpirun(const std::vector<std::string>& words, const std::function<void(const std::string&)>& on_line,
               std::chrono::seconds longest) {
  const TemporaryFolder errors;
  std::vector<std::string> all = {"mpirun",
                                  "--oversubscribe",
                                  "--allow-run-as-root",
                                  "--bind-to",
                                  "none",
                                  "-x",
                                  "JOB_ERRORS=" + errors.path().string()};
  all.insert(all.end(), words.begin(), words.end());
  Outcome result = run(all, on_line, longest);
  for (const auto& file : std::filesystem::directory_iterator(errors.path())) {
    std::ifstream in(file.path());
    result.output.append(std::istreambuf_iterator<char>(in), {});
  }
  return result;
}

bool is_mpirun_there() {
  static const bool is_there = run({"mpirun", "--version"}).status == 0;
  return is_there;
}

void side_by_side(int count, const std::function<void(int)>& job) {
  std::atomic<int> next = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < std::min(count, 4); ++t)
    threads.emplace_back([&] {
      for (int n; (n = next++) < count;) job(n);
    });
}

}  // namespace lockstep::testing
