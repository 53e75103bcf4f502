#include "distributed/same_lines.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {
namespace {

std::vector<std::string> lines_of(const std::string& all) {
  std::vector<std::string> lines;
  for (std::size_t at = 0, end; at < all.size(); at = end + 1) {
    end = std::min(all.find('\n', at), all.size());
    lines.push_back(all.substr(at, end - at));
  }
  return lines;
}

}  // namespace

void expect_same_lines(std::string_view expected, const World& world, const std::vector<std::string>& of_each) {
  for (std::size_t p = 1; p < of_each.size(); ++p) {
    if (of_each[p] == of_each[0]) continue;
    const std::vector<std::string> first = lines_of(of_each[0]), other = lines_of(of_each[p]);
    const auto [a, b] = std::ranges::mismatch(first, other);
    // If this line of one process appears later in the other process, the other process has additional lines before it.
    // Then report the first of these lines as missing.
    const bool only_other = a == first.end() || std::find(b, other.end(), *a) != other.end();
    const bool only_first = b == other.end() || (!only_other && std::find(a, first.end(), *b) != first.end());
    const auto of = [&](const std::string& line, std::size_t process) {
      return text(line, " in process ", process, " on ", world.host(ProcessRank(int(process))));
    };
    throw InvalidArgument(text(expected, ", got ", of(only_other ? "nothing like it" : *a, 0), " and ",
                               of(only_first ? "nothing like it" : *b, p)));
  }
}

std::string exact(double number) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), number).ptr};
}

}  // namespace lockstep
