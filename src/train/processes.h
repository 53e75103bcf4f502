// Communication between the processes of a training run: agreement on success, and sums over all rows. All processes
// call each function, in the same order; a single process exchanges nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/distributed/world.h>
#include <lockstep/train/metrics.h>

namespace lockstep::train::detail {

/// Returns f's results of all processes, by rank. If f throws in any process, all processes throw: a process in which f
/// threw throws its own exception; the others throw the exception of the lowest failing rank, with its rank and host.
/// In the other processes IoError, FormatError and InvalidArgument keep their type; other types become CollectiveError.
std::vector<std::string> all_or_throw(const World& world, const char* what, const std::function<std::string()>& f);

/// Like all_or_throw(), but f returns lines that must be equal in all processes; otherwise all throw InvalidArgument
/// with the first line that differs.
std::vector<std::string> require_equal_in_all(const World& world, const char* what,
                                              const std::function<std::string()>& f);

/// Gives this thread the random sequence of process 0.
void broadcast_generator(const World& world);

/// The content of a row of the history: sums over rows, and the time.
struct Report {
  double seconds = 0;
  std::vector<MeanSum> training = {}, validation = {};
  bool asks_to_stop = false;
};

/// Adds each sum in `more` to the sum of the same name in `all`.
void add_sums(std::vector<MeanSum>& all, const std::vector<MeanSum>& more);

/// Returns the sums over the rows of all processes, added in the order of ranks. The time is process 0's. asks_to_stop
/// is set if any process set it.
Report over_all_rows(const World& world, Report mine);

}  // namespace lockstep::train::detail
