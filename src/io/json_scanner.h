// JsonScanner: reads JSON (RFC 8259) token by token, in place; it allocates only one string at a time. It does not
// recurse, so nesting cannot exhaust the stack. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::safetensors {

class JsonScanner {
 public:
  /// `begin`: the position of the text in the file, in bytes. Both references must outlive this.
  JsonScanner(const std::string& file, std::string_view text, std::uint64_t begin)
      : file_(file), text_(text), begin_(begin) {}

  /// The position of the next token in the file.
  std::uint64_t position() const noexcept { return begin_ + at_; }
  /// Throws FormatError at position(); the reason is text(reason...).
  template <class... Reason>
  [[noreturn]] void fail(const Reason&... reason) const {
    throw FormatError(file_, position(), text(reason...));
  }

  /// Returns the first byte of the next token; 0 at the end, and for a byte 0, which begins no token.
  char peek();
  /// If the next token is `token`, one of ,:[]{}, reads it and returns true; otherwise returns false.
  bool take(char token);
  /// Reads the next token. Throws FormatError unless it is `token`.
  void expect(char token);
  /// Throws FormatError unless all tokens were read.
  void expect_end();

  /// Reads an object. Calls each(name) at the position of each member's value.
  template <class Each>
  void object(const Each& each) {
    expect('{');
    if (take('}')) return;
    do {
      std::string name = string();
      expect(':');
      each(std::move(name));
    } while (take(','));
    expect('}');
  }
  /// Reads an array. Calls each() at the position of each element.
  template <class Each>
  void array(const Each& each) {
    expect('[');
    if (take(']')) return;
    do each();
    while (take(','));
    expect(']');
  }
  /// Reads a string. Returns it without its quotes and escapes, as valid UTF-8.
  std::string string();
  /// Reads a number. Returns it as written.
  std::string_view number();
  /// Returns a description of the next value for an error message. Reads the value, unless it is an object or an array.
  std::string described();

 private:
  [[noreturn]] void fail_for(std::string_view expected);
  std::uint32_t hexadecimal();
  void escape(std::string& to);
  void word(std::string_view expected);
  void digits();

  const std::string& file_;
  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::safetensors
