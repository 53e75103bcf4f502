// Finds differences between the processes of a job: World::agree() compares texts with one line per setting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/distributed/world.h>

namespace lockstep {

/// Throws InvalidArgument unless all processes gave the same lines as process 0: "<expected>, got <line> in process 0
/// on <host> and <line> in process <p> on <host>", for the first difference; "nothing like it" stands for a line that
/// only the other process has.
void expect_same_lines(std::string_view expected, const World& world, const std::vector<std::string>& of_each);

/// The shortest decimal text that identifies the number.
std::string exact(double number);

}  // namespace lockstep
