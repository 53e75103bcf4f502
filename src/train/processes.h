// What the processes of a training run tell each other: whether something went well in all of them, and sums over all
// rows. All processes call each function, in one order; for a process alone nothing is exchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/runtime/world.h>
#include <lockstep/train/metrics.h>

namespace lockstep::train::detail {

/// What f gave in each process, by rank. Where f threw in any, all throw: that process what f threw, and the others
/// what f threw in the lowest such process, with its rank and host: IoError, FormatError and InvalidArgument as such,
/// anything else as CollectiveError.
std::vector<std::string> together(const World& world, const char* what, const std::function<std::string()>& f);

/// The same, of lines that all processes have to give alike: all throw InvalidArgument naming the first that differs.
std::vector<std::string> alike(const World& world, const char* what, const std::function<std::string()>& f);

/// From now on this thread draws the random numbers of process 0.
void draw_as_first(const World& world);

/// A row of the history: sums over rows, and when it was.
struct Report {
  double seconds = 0;
  std::vector<MeanSum> training = {}, validation = {};
  bool asks_to_stop = false;
};

/// Adds sums to those of the same names.
void add_sums(std::vector<MeanSum>& all, const std::vector<MeanSum>& more);

/// Sums over the rows of all processes, added in the order of the ranks; the time is process 0's, and one process that
/// asks to stop is enough.
Report over_all_rows(const World& world, Report mine);

}  // namespace lockstep::train::detail
