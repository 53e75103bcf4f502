// Replaces the process's standard output and standard error by a pseudo-terminal, while it lives.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::testing {

class Terminal {
 public:
  explicit Terminal(int columns) {
    flush();
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) throw std::runtime_error("no terminal");
    const int slave = ::open(ptsname(master_), O_RDWR | O_NOCTTY);
    if (slave < 0) throw std::runtime_error("no terminal");
    resize(columns);
    out_ = ::dup(STDOUT_FILENO), error_ = ::dup(STDERR_FILENO);
    ::dup2(slave, STDOUT_FILENO), ::dup2(slave, STDERR_FILENO);
    ::close(slave);
    reader_ = std::thread([this] {
      char bytes[4096];
      for (ssize_t size; (size = ::read(master_, bytes, sizeof bytes)) > 0;) text_.append(bytes, std::size_t(size));
    });
  }
  ~Terminal() { finish(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void resize(int columns) {
    const winsize size = {.ws_row = 24, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
  }
  /// Restores the streams. Returns all output.
  std::string finish() {
    if (!reader_.joinable()) return text_;
    flush();
    // closes the last descriptors of the terminal, which ends the reader
    ::dup2(out_, STDOUT_FILENO), ::dup2(error_, STDERR_FILENO);
    ::close(out_), ::close(error_);
    reader_.join();
    ::close(master_);
    return text_;
  }

 private:
  static void flush() {
    std::cout.flush();
    std::fflush(stdout);
  }

  int master_ = -1, out_ = -1, error_ = -1;
  std::thread reader_;
  std::string text_;
};

/// The lines on a terminal of unbounded width after `text`, whose only escapes are \r and "erase to the end".
inline std::vector<std::string> screen(const std::string& text) {
  std::vector<std::string> lines(1);
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      column = 0;
    } else if (text.compare(i, 3, "\x1b[K") == 0) {
      lines.back().resize(std::min(lines.back().size(), column));
      i += 2;
    } else if (text[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1));
      lines.back()[column++] = text[i];
    }
  }
  return lines;
}

}  // namespace lockstep::testing
