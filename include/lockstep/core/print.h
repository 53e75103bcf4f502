// print() writes its whole text at once, so that lines of several threads never mix. Safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <lockstep/core/export.h>

namespace lockstep {

/// The value that replaces a field: its text, for {}; and its number, if it is one, for fields such as {:8.3f}.
struct FormatArgument {
  std::string text;  ///< As std::ostream writes it; "true" or "false" for a bool.
  /// The number that {:...} formats; monostate if the value is not a number.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double> number = {};
};

/// Replaces each {} in `format` by the next of `arguments`, and each {:...} by the next argument formatted as
/// std::format does: numbers ({:.4f}, {:>8}, {:05d}, {:x}) and texts ({:<20}). Throws InvalidArgument if the numbers of
/// arguments and fields differ, or if a format specification does not suit its argument.
LOCKSTEP_API std::string format(std::string_view format, std::span<const FormatArgument> arguments);

/// Writes to standard output in one piece. Inside a replica of parallel_apply the text is buffered, and written in the
/// order of the replicas when all have finished, so that output does not depend on timing.
LOCKSTEP_API void print_text(std::string_view text);

namespace detail {
template <class T>
FormatArgument format_argument(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_same_v<T, bool>) out << std::boolalpha;
  out << value;
  FormatArgument argument{std::move(out).str()};
  if constexpr (std::is_same_v<T, bool>)
    argument.number = value;
  else if constexpr (std::is_floating_point_v<T>)
    argument.number = double(value);
  else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>)
    argument.number = std::uint64_t(value);
  else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, char>)
    argument.number = std::int64_t(value);
  return argument;
}
}  // namespace detail

/// print("{} of {}, loss {:.4f}\n", a, b, c): anything that std::ostream takes. Writes as print_text does.
template <class... Arguments>
void print(std::string_view pattern, const Arguments&... arguments) {
  const FormatArgument all[sizeof...(arguments) + 1] = {detail::format_argument(arguments)...};
  print_text(format(pattern, std::span(all, sizeof...(arguments))));
}

/// While it lives, print() on this thread appends to `text` instead of writing.
class LOCKSTEP_API CapturePrint {
 public:
  explicit CapturePrint(std::string& text) noexcept;
  ~CapturePrint();
  CapturePrint(const CapturePrint&) = delete;
  CapturePrint& operator=(const CapturePrint&) = delete;

 private:
  std::string* outer_;
};

}  // namespace lockstep
