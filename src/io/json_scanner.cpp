#include "io/json_scanner.h"

#include <charconv>

#include "core/utf8.h"
#include "io/safetensors_header.h"

namespace lockstep::safetensors {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void JsonScanner::fail_for(std::string_view expected) {
  constexpr std::size_t kShown = 20;
  const bool ends = at_ == text_.size();
  fail("expected JSON with ", expected, ", got ", ends ? "the end" : shown(text_.substr(at_, kShown)));
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
