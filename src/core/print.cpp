#include <lockstep/core/print.h>

#include <cstdio>
#include <utility>

#include <lockstep/core/error.h>

#include "core/bottom_line.h"
#include "core/context.h"
#include "core/text.h"

namespace lockstep {
namespace {

constinit std::mutex printing;
constinit BottomLine* bottom_line = nullptr;  // under `printing`

}  // namespace

std::mutex& print_mutex() noexcept { return printing; }
BottomLine* set_bottom_line(BottomLine* line) noexcept { return std::exchange(bottom_line, line); }

std::string format(std::string_view pattern, std::span<const std::string> arguments) {
  std::string result;
  std::size_t used = 0;
  std::size_t from = 0;
  for (std::size_t at; (at = pattern.find("{}", from)) != std::string_view::npos; from = at + 2) {
    result.append(pattern, from, at - from);
    if (used < arguments.size()) result += arguments[used];
    ++used;
  }
  if (used != arguments.size())
    throw InvalidArgument(text("[print] expected one argument for each {}, got ", arguments.size(), " for ", used));
  return result.append(pattern, from);
}

void print_text(std::string_view text) {
  if (std::string* const kept = context().printed) {
    kept->append(text);
    return;
  }
  const std::scoped_lock lock(printing);
  if (bottom_line) bottom_line->give_way();
  std::fwrite(text.data(), 1, text.size(), stdout);  // one call: stdio locks the stream for its length
  if (!bottom_line) return;
  std::fflush(stdout);
  bottom_line->come_back(text);
}

CapturePrint::CapturePrint(std::string& text) noexcept : outer_(std::exchange(context().printed, &text)) {}
CapturePrint::~CapturePrint() { context().printed = outer_; }

}  // namespace lockstep
