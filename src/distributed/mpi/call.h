// Turns error codes of MPI into exceptions.
#pragma once

#include <mpi.h>

#include <string_view>

#include <lockstep/core/error.h>

namespace lockstep::mpi {

/// Throws BackendError with MPI's error text if the call failed.
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, words, &length);
  throw BackendError(call, code, "MPI", std::string_view(words, std::size_t(length)));
}

}  // namespace lockstep::mpi
