// Naming what differs between the processes of a job: World::agree() compares texts of a line for each setting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/runtime/world.h>

namespace lockstep {

/// Throws InvalidArgument unless each process gave the lines that process 0 gave: "<expected>, got <line> in process 0
/// on <host> and <line> in process <p> on <host>", of the first line that differs; "nothing like it" for one that only
/// the other has.
void expect_same_lines(std::string_view expected, const World& world, const std::vector<std::string>& of_each);

/// As few digits as tell it from all other numbers.
std::string exact(double number);

}  // namespace lockstep
