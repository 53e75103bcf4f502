// Lines that never mix: print() writes its whole text at once, from any thread.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include <lockstep/core/export.h>

namespace lockstep {

/// Replaces each {} in `format` by the next of `arguments`. Throws InvalidArgument unless their counts agree.
LOCKSTEP_API std::string format(std::string_view format, std::span<const std::string> arguments);

/// Writes to standard output, whole. Inside a replica of parallel_apply the text is kept and
/// written in the order of the replicas when all have finished, so that output does not depend on timing.
LOCKSTEP_API void print_text(std::string_view text);

/// print("{} of {}\n", a, b): anything that std::ostream takes. Writes as print_text does.
template <class... Arguments>
void print(std::string_view pattern, const Arguments&... arguments) {
  [[maybe_unused]] const auto stringify = [](const auto& value) {
    std::ostringstream out;
    out << value;
    return std::move(out).str();
  };
  const std::string texts[sizeof...(arguments) + 1] = {stringify(arguments)...};
  print_text(format(pattern, std::span(texts, sizeof...(arguments))));
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
