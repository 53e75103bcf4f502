#include "io/json_scanner.h"

#include <array>
#include <charconv>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "io/safetensors_header.h"

namespace lockstep::safetensors {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The length of the character at the beginning of a text; 0 if it is not valid UTF-8 (RFC 3629, section 4).
std::size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? std::uint8_t(text[i]) : std::uint8_t(0); };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const std::uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    // overlong, or half a surrogate pair
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (first < 0xf0 || first > 0xf4 || (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return continues(1) && continues(2) && continues(3) ? 4 : 0;
}

void append_utf8(std::string& to, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { to += char(byte); };
  const auto add_six = [&](int shift) { add(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) return add(0xc0 | code >> 6), add_six(0);
  if (code < 0x10000) return add(0xe0 | code >> 12), add_six(6), add_six(0);
  add(0xf0 | code >> 18), add_six(12), add_six(6), add_six(0);
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

void JsonScanner::fail(std::string_view reason) const { throw FormatError(file_, position(), reason); }

void JsonScanner::fail_for(std::string_view expected) {
  constexpr std::size_t kShown = 20;
  const bool ends = at_ == text_.size();
  fail(text("expected JSON with ", expected, ", got ", ends ? "the end" : shown(text_.substr(at_, kShown))));
}

char JsonScanner::peek() {
  while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonScanner::take(char token) {
  if (peek() != token || at_ == text_.size()) return false;
  ++at_;
  return true;
}

void JsonScanner::expect(char token) {
  if (!take(token)) fail_for(std::string_view(&token, 1));
}

void JsonScanner::expect_end() {
  peek();
  if (at_ < text_.size()) fail_for("an end");
}

std::string JsonScanner::string() {
  if (!take('"')) fail_for("a string");
  std::string result;
  while (true) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') {
      const std::size_t bytes = std::uint8_t(text_[at_]) < 0x20 ? 0 : utf8_bytes(text_.substr(at_));
      if (bytes == 0) fail_for("UTF-8 in a string");
      at_ += bytes;
    }
    if (at_ == text_.size()) fail_for("\" after a string");
    if (result.empty()) result.reserve(at_ - begin);  // the whole string, if it has no escapes
    result.append(text_, begin, at_ - begin);
    if (text_[at_++] == '"') return result;
    escape(result);
  }
}

std::uint32_t JsonScanner::hexadecimal() {
  constexpr std::size_t kDigits = 4;
  const std::string_view digits = text_.substr(at_, kDigits);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), code, 16);
  if (digits.size() != kDigits || end != digits.end() || error != std::errc()) fail_for("four digits after \\u");
  at_ += kDigits;
  return code;
}

void JsonScanner::escape(std::string& to) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const char kind = at_ < text_.size() ? text_[at_] : '\0';
  if (const std::size_t known = kEscapes.find(kind); known != kEscapes.npos) {
    ++at_;
    to += kMeanings[known];
    return;
  }
  if (kind != 'u') fail_for("an escape");
  ++at_;
  std::uint32_t code = hexadecimal();
  if (code >= 0xd800 && code < 0xdc00) {  // the first of a surrogate pair
    if (text_.substr(at_, 2) != "\\u") fail_for("the second of a surrogate pair");
    at_ += 2;
    const std::uint32_t second = hexadecimal();
    if (second < 0xdc00 || second > 0xdfff) fail_for("the second of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
  } else if (code >= 0xdc00 && code <= 0xdfff) {
    fail_for("the first of a surrogate pair");
  }
  append_utf8(to, code);
}

void JsonScanner::digits() {
  if (at_ == text_.size() || !is_digit(text_[at_])) fail_for("a digit");
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
}

std::string_view JsonScanner::number() {
  peek();
  const std::size_t begin = at_;
  const auto one_of = [&](std::string_view some) {
    const bool is_there = at_ < text_.size() && some.find(text_[at_]) != some.npos;
    at_ += is_there;
    return is_there;
  };
  one_of("-");
  if (!one_of("0")) digits();  // no digits follow a leading 0
  if (one_of(".")) digits();
  if (one_of("eE")) {
    one_of("+-");
    digits();
  }
  return text_.substr(begin, at_ - begin);
}

void JsonScanner::word(std::string_view expected) {
  if (!text_.substr(at_).starts_with(expected)) fail_for("a value");
}

std::string JsonScanner::described() {
  constexpr std::size_t kShown = 40;
  switch (const char first = peek(); first) {
    case '{': return "an object";
    case '[': return "an array";
    case '"': return shown(string());
    case 't': word("true"); return "a boolean";
    case 'f': word("false"); return "a boolean";
    case 'n': word("null"); return "null";
    default:
      if (first != '-' && !is_digit(first)) fail_for("a value");
      return std::string(number().substr(0, kShown));
  }
}

}  // namespace lockstep::safetensors
