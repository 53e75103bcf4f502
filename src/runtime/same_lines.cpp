#include "runtime/same_lines.h"

#include <algorithm>
#include <cstddef>

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
    const auto of = [&](const auto& line, const auto& lines, std::size_t process) {
      return text(line == lines.end() ? "nothing more" : *line, " in process ", process, " on ",
                  world.host(ProcessRank(int(process))));
    };
    throw InvalidArgument(text(expected, ", got ", of(a, first, 0), " and ", of(b, other, p)));
  }
}

}  // namespace lockstep
