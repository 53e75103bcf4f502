// Starts jobs as users do, with mpirun, and watches them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

/// The outcome of a program. `output` is everything printed on stdout and stderr, and the files that mpi_job wrote to
/// the folder in JOB_ERRORS. (When mpirun ends a job it does not wait for the last lines of the processes that it
/// kills.)
struct Outcome {
  int status = -1;  ///< As in the shell.
  bool ended_in_time = true;
  std::string output;
  std::chrono::milliseconds took{0};

  std::vector<std::string> lines_with(const std::string& part) const;
};

/// Runs mpirun with these arguments, of which the first may be "-n". Calls `on_line` for each line as it arrives. Kills
/// a job that has not ended after `longest`.
Outcome mpirun(const std::vector<std::string>& words, const std::function<void(const std::string&)>& on_line = {},
               std::chrono::seconds longest = std::chrono::seconds(60));

/// The same for any program.
Outcome run(const std::vector<std::string>& words, const std::function<void(const std::string&)>& on_line = {},
            std::chrono::seconds longest = std::chrono::seconds(60));

bool is_mpirun_there();

/// Calls job(0) to job(count - 1), four at a time, each on a thread of its own: jobs mostly wait.
void side_by_side(int count, const std::function<void(int)>& job);

}  // namespace lockstep::testing
