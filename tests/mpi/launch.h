// Starts jobs as users do, by mpirun, and watches them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

/// What became of it; all that was printed, on stdout and stderr, and what mpi_job wrote to the folder that the
/// variable JOB_ERRORS names. (When mpirun ends a job it does not wait for the last lines of the processes that it
/// kills.)
struct Outcome {
  int status = -1;  ///< As the shell has it.
  bool ended_in_time = true;
  std::string output;
  std::chrono::milliseconds took{0};

  std::vector<std::string> lines_with(const std::string& part) const;
};

/// mpirun with these words, of which the first may be "-n". `on_line` sees each line when it comes. A job that has not
/// ended after `longest` is killed.
Outcome mpirun(const std::vector<std::string>& words, const std::function<void(const std::string&)>& on_line = {},
               std::chrono::seconds longest = std::chrono::seconds(60));

/// Any program.
Outcome run(const std::vector<std::string>& words, const std::function<void(const std::string&)>& on_line = {},
            std::chrono::seconds longest = std::chrono::seconds(60));

bool is_mpirun_there();

/// Calls job(0) to job(count - 1), four at a time, each on a thread of its own: most of the time of a job is waiting.
void side_by_side(int count, const std::function<void(int)>& job);

}  // namespace lockstep::testing
