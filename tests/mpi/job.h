// The program that the tests start in several processes: its first argument selects a scenario.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/distributed/world.h>

namespace lockstep::testing {

using Arguments = std::vector<std::string>;
using Scenario = void (*)(const Arguments&);

/// The scenarios throw on a failure.
const std::map<std::string, Scenario>& world_scenarios();
const std::map<std::string, Scenario>& failure_scenarios();
const std::map<std::string, Scenario>& training_scenarios();

/// Prints a whole line at once, prefixed by this process's rank and size.
void say(const World& world, const std::string& line);

/// Redirects standard error to a file if the variable JOB_ERRORS names a folder: mpirun may lose the last lines of a
/// process that it kills.
void write_errors_to_a_file();

/// Throws if `is_so` is false.
void require(bool is_so, std::string_view what);

}  // namespace lockstep::testing
