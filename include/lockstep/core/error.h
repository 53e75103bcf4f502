// All errors that Lockstep throws. Messages read "[op] expected ..., got ...". Copying an error never throws.
// Threads may share an error that is no longer changed. A move copies the error, so the moved-from error keeps its
// message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/core/export.h>

namespace lockstep {

/// The base of all errors. Context ("in replica 1 on cuda:1") is added to an error in place, so that the error keeps
/// its type.
class LOCKSTEP_API Error : public std::exception {
 public:
  explicit Error(std::string message);
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override = default;
  const char* what() const noexcept override;  ///< The message, with all context that was added.

  /// Appends " (where)" to the message.
  void add_context(std::string_view where);

  /// Attaches another failure of the same operation to this error.
  void attach(std::exception_ptr other);
  const std::vector<std::exception_ptr>& attached() const noexcept;  ///< The attached failures, in order.

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// An argument that cannot be used. Thrown before anything is enqueued or changed.
class LOCKSTEP_API InvalidArgument : public Error {
 public:
  using Error::Error;
};

class LOCKSTEP_API ShapeError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

class LOCKSTEP_API DTypeError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Operands are on different devices. Lockstep never copies them implicitly.
class LOCKSTEP_API DeviceMismatch : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// A device has no room for a request, even after the allocator freed its cache. Sizes are bytes.
class LOCKSTEP_API OutOfMemory : public Error {
 public:
  /// Bytes.
  struct Sizes {
    std::size_t requested = 0;
    std::size_t in_use = 0;
    std::size_t cached = 0;
    std::size_t limit = 0;
  };
  OutOfMemory(std::string device, Sizes sizes);  ///< The message names the device and all sizes.

  const std::string device;
  const Sizes sizes;  ///< Bytes.
};

/// A call into a backend, such as CUDA, failed. The message has the call's name, the backend's own error code and the
/// device.
class LOCKSTEP_API BackendError : public Error {
 public:
  BackendError(std::string api, int code, std::string device, std::string_view text);

  const std::string api;  ///< The name of the function that failed.
  const int code;         ///< The backend's own code, such as a cudaError_t.
  const std::string device;
};

/// Simulated devices found two accesses to the same memory that no event, stream or wait orders.
class LOCKSTEP_API RaceError : public Error {
 public:
  using Error::Error;
};

/// A collective operation failed on one rank.
class LOCKSTEP_API CollectiveError : public Error {
 public:
  CollectiveError(int rank, std::string operation, std::size_t bytes, std::string_view text);

  const int rank;               ///< The rank that detected the failure.
  const std::string operation;  ///< "all_reduce", for example.
  const std::size_t bytes;      ///< Size of the operation's data.
};

class LOCKSTEP_API AutogradError : public Error {
 public:
  using Error::Error;
};

/// A file violates its format; `offset` is the byte where the violation was found.
class LOCKSTEP_API FormatError : public Error {
 public:
  FormatError(std::string file, std::uint64_t offset, std::string_view text);

  const std::string file;      ///< Its path.
  const std::uint64_t offset;  ///< In bytes from the beginning.
};

/// The operating system refused an operation on a file; code is its errno.
class LOCKSTEP_API IoError : public Error {
 public:
  IoError(std::string operation, std::string file, int code);

  const std::string operation;  ///< "open", for example.
  const std::string file;       ///< Its path.
  const int code;               ///< The errno.
};

}  // namespace lockstep
