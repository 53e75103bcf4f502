#include "report/terminal_width.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "core/text.h"

namespace lockstep::train {
namespace {

constexpr int kUsualWidth = 80;

bool is_of_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(variable)) return true;
  return false;
}

int width_of(int file) {
  if (!isatty(file)) return 0;
  winsize size = {};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

// Returns the fourth field of /proc/PID/stat, which comes after the program's name in parentheses (proc(5)); 0:
// unknown.
pid_t parent_of(pid_t process) {
  std::ifstream file(text("/proc/", process, "/stat"));
  std::string status;
  std::getline(file, status);
  const std::size_t name_end = status.rfind(") ");
  if (name_end == status.npos || name_end + 4 >= status.size()) return 0;
  return pid_t(std::strtol(status.c_str() + name_end + 4, nullptr, 10));
}

}  // namespace

int terminal_width(int file) {
  const int width = width_of(file);
  return width > 0 && is_of_launcher() ? launcher_terminal_width(file, getppid()) : width;
}

int launcher_terminal_width(int file, pid_t parent) {
  struct stat own, other;
  if (fstat(file, &own) != 0) return 0;
  for (; parent > 1; parent = parent_of(parent)) {
    const std::string path = text("/proc/", parent, "/fd/", file);
    if (stat(path.c_str(), &other) != 0) return 0;
    if (own.st_dev == other.st_dev && own.st_ino == other.st_ino) continue;  // the same terminal: perhaps a shell
    if (!S_ISCHR(other.st_mode)) return 0;
    const int descriptor = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return 0;
    const int width = width_of(descriptor);
    close(descriptor);
    return width;
  }
  return 0;
}

}  // namespace lockstep::train
