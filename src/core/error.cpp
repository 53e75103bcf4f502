#include <lockstep/core/error.h>
#include <lockstep/core/moved_from.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "core/text.h"

namespace lockstep {
namespace {

std::terminate_handler next_handler = nullptr;

// Flushes stdout: abort() drops buffered output if standard output is a pipe or a file.
[[noreturn]] void write_what_was_printed() {
  if (ftrylockfile(stdout) == 0) {  // else another thread is writing, and may never end
    fflush_unlocked(stdout);
    funlockfile(stdout);
  }
  if (next_handler) next_handler();
  std::abort();
}

// Installed in every program that links the library: the output just before an uncaught error tells most about its
// cause.
[[maybe_unused]] const bool is_installed = (next_handler = std::set_terminate(write_what_was_printed), true);

}  // namespace

struct Error::State {
  std::string message;
  std::vector<std::exception_ptr> attached;
};

Error::Error(std::string message) : state_(std::make_shared<State>(State{std::move(message), {}})) {}

const char* Error::what() const noexcept { return state_->message.c_str(); }

void Error::add_context(std::string_view where) { state_->message.append(" (").append(where).append(")"); }

void Error::attach(std::exception_ptr other) { state_->attached.push_back(std::move(other)); }

const std::vector<std::exception_ptr>& Error::attached() const noexcept { return state_->attached; }

OutOfMemory::OutOfMemory(std::string device_name, Sizes s)
    : Error(text("[allocate] ", device_name, " is out of memory: requested ", s.requested, " bytes, in use ", s.in_use,
                 ", cached ", s.cached, ", limit ", s.limit)),
      device(std::move(device_name)),
      sizes(s) {}

BackendError::BackendError(std::string api_name, int error_code, std::string device_name, std::string_view reason)
    : Error(text("[", api_name, "] failed on ", device_name, " with code ", error_code, ": ", reason)),
      api(std::move(api_name)),
      code(error_code),
      device(std::move(device_name)) {}

CollectiveError::CollectiveError(int failed_rank, std::string operation_name, std::size_t size, std::string_view reason)
    : Error(text("[", operation_name, "] failed on rank ", failed_rank, " with ", size, " bytes: ", reason)),
      rank(failed_rank),
      operation(std::move(operation_name)),
      bytes(size) {}

FormatError::FormatError(std::string file_name, std::uint64_t at, std::string_view reason)
    : Error(text("[", file_name, "] at byte ", at, ": ", reason)), file(std::move(file_name)), offset(at) {}

IoError::IoError(std::string operation_name, std::string file_name, int error_code)
    : Error(text("[", operation_name, "] failed on ", file_name, " with errno ", error_code, ": ",
                 std::generic_category().message(error_code))),
      operation(std::move(operation_name)),
      file(std::move(file_name)),
      code(error_code) {}

void detail::throw_moved_from(const char* type, const char* what) {
  throw InvalidArgument(text('[', type, "] expected ", what, ", got one that was moved from"));
}

}  // namespace lockstep
