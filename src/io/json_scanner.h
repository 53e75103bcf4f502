// JsonScanner: JSON (RFC 8259) token by token, in place: what it builds is the text of one string at a time. It knows
// no depth, so there is none that a text could exhaust. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::safetensors {

/// Whether these are whole, valid characters.
bool is_utf8(std::string_view text);

class JsonScanner {
 public:
  /// `begin` is the byte of the file at which the text stands. Both outlive this.
  JsonScanner(const std::string& file, std::string_view text, std::uint64_t begin)
      : file_(file), text_(text), begin_(begin) {}

  /// Of the next token in the file.
  std::uint64_t position() const noexcept { return begin_ + at_; }
  /// Throws FormatError at position().
  [[noreturn]] void fail(std::string_view reason) const;

  /// The first byte of the next token; 0 at the end, and for a byte 0, which begins none.
  char peek();
  /// Whether the next token is this one of ,:[]{} which is then read.
  bool take(char token);
  /// Throws FormatError unless the next token is this one, which is read.
  void expect(char token);
  /// Throws FormatError unless nothing is left.
  void expect_end();

  /// Calls each(name) where the value of each name stands.
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
  /// Calls each() where each value stands.
  template <class Each>
  void array(const Each& each) {
    expect('[');
    if (take(']')) return;
    do each();
    while (take(','));
    expect(']');
  }
  /// Without its quotes and escapes; valid UTF-8.
  std::string string();
  /// As it is written.
  std::string_view number();
  /// The next value, or its beginning, for a message.
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
