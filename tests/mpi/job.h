// The program of which the tests start several processes: its first argument says what they do.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/runtime/world.h>

namespace lockstep::testing {

using Arguments = std::vector<std::string>;
using Scenario = void (*)(const Arguments&);

/// All of them throw what goes wrong.
const std::map<std::string, Scenario>& world_scenarios();
const std::map<std::string, Scenario>& failure_scenarios();
const std::map<std::string, Scenario>& training_scenarios();

/// Prints a line at once, whole, with this process's rank and size in front.
void say(const World& world, const std::string& line);

/// Instead of standard error, if the variable JOB_ERRORS names a folder: mpirun may lose what a process that it kills
/// has written there last.
void write_errors_to_a_file();

/// Throws where it is false.
void require(bool is_so, std::string_view what);

}  // namespace lockstep::testing
