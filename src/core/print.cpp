#include <lockstep/core/print.h>

#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <utility>

#ifdef LOCKSTEP_STD_FORMAT
#include <format>
#else
#include <fmt/format.h>
#endif

#include <lockstep/core/error.h>

#include "core/bottom_line.h"
#include "core/context.h"
#include "core/text.h"

namespace lockstep {
namespace {

constinit std::mutex printing;
constinit BottomLine* bottom_line = nullptr;  // guarded by `printing`

#ifdef LOCKSTEP_STD_FORMAT
using FormatError = std::format_error;
template <class T>
std::string formatted_value(std::string_view field, const T& value) {
  return std::vformat(field, std::make_format_args(value));
}
#else
using FormatError = fmt::format_error;
template <class T>
std::string formatted_value(std::string_view field, const T& value) {
  return fmt::format(fmt::runtime(field), value);
}
#endif

// Finds the next field, which begins with "{}" or "{:"; any other brace is text.
std::size_t find_field(std::string_view pattern, std::size_t from) {
  return std::min(pattern.find("{}", from), pattern.find("{:", from));
}

std::string formatted(std::string_view specification, const FormatArgument& argument) {
  if (specification.empty()) return argument.text;
  try {
    return std::visit(
        [&](const auto& value) {
          using T = std::remove_cvref_t<decltype(value)>;
          const std::string field = text('{', specification, '}');
          if constexpr (std::is_same_v<T, std::monostate>)
            return formatted_value(field, argument.text);
          else
            return formatted_value(field, value);
        },
        argument.number);
  } catch (const FormatError& error) {
    throw InvalidArgument(text("[print] expected a format specification such as {:8.3f} for \"", argument.text,
                               "\", got {", specification, "}: ", error.what()));
  }
}

}  // namespace

std::mutex& print_mutex() noexcept { return printing; }
BottomLine* set_bottom_line(BottomLine* line) noexcept { return std::exchange(bottom_line, line); }

std::string format(std::string_view pattern, std::span<const FormatArgument> arguments) {
  std::string result;
  std::size_t used = 0;
  std::size_t from = 0;
  for (std::size_t at; (at = find_field(pattern, from)) != pattern.npos; ++used) {
    const std::size_t end = pattern.find('}', at);
    if (end == pattern.npos) break;  // a brace in the text, not a field
    result.append(pattern, from, at - from);
    if (used < arguments.size()) result += formatted(pattern.substr(at + 1, end - at - 1), arguments[used]);
    from = end + 1;
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
  if (bottom_line) bottom_line->clear_line();
  std::fwrite(text.data(), 1, text.size(), stdout);  // one call, during which stdio locks the stream
  if (!bottom_line) return;
  std::fflush(stdout);
  bottom_line->redraw(text);
}

CapturePrint::CapturePrint(std::string& text) noexcept : outer_(std::exchange(context().printed, &text)) {}
CapturePrint::~CapturePrint() { context().printed = outer_; }

}  // namespace lockstep
