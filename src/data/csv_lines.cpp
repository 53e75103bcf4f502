#include "data/csv_lines.h"

#include <algorithm>

#include "io/safetensors_header.h"

namespace lockstep::data {
namespace {

constexpr int kEnd = -1;
constexpr std::size_t kBlock = 256 << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

bool CsvLines::next(std::vector<std::string_view>& fields) {
  for (;;) {
    drop_what_was_read();
    if (peek() == kEnd) return false;
    line_ = next_line_;
    places_.clear();
    has_quotes_ = false;
    while (!field()) {
    }
    if (places_.size() == 1 && places_[0].second == 0 && !has_quotes_) continue;
    fields.clear();
    for (const auto& [begin, length] : places_) fields.push_back(std::string_view(buffer_).substr(begin, length));
    return true;
  }
}

int CsvLines::peek() {
  if (at_ == buffer_.size() && !refill()) return kEnd;
  return static_cast<unsigned char>(buffer_[at_]);
}

bool CsvLines::refill() {
  const std::uint64_t from = base_ + buffer_.size();
  const auto bytes = std::size_t(std::min<std::uint64_t>(kBlock, source_.size() - from));
  if (bytes == 0) return false;
  if (buffer_.size() - begin_ >= kMaxLineBytes)
    fail(places_.size(), "expected lines of at most ", kMaxLineBytes, " bytes, got a longer one");
  const std::size_t size = buffer_.size();
  buffer_.resize(size + bytes);
  source_.read(from, buffer_.data() + size, bytes);
  if (const std::size_t zero = buffer_.find('\0', size); zero != buffer_.npos)
    source_.fail(base_ + zero, "expected text in UTF-8, got a byte 0");
  if (from == 0 && buffer_.starts_with(kByteOrderMark)) at_ = begin_ = kByteOrderMark.size();
  return at_ < buffer_.size();
}

// Drops the bytes that were read from the front of the buffer, but only if they are at least half of it, so that on
// average each byte of the file is moved at most once.
void CsvLines::drop_what_was_read() {
  if (at_ >= buffer_.size() - at_) {
    buffer_.erase(0, at_);
    base_ += at_;
    at_ = 0;
  }
  begin_ = at_;
}

bool CsvLines::field() {
  if (places_.size() == kMaxFields) fail(kMaxFields, "expected at most ", kMaxFields, " fields, got more");
  const std::size_t from = at_;
  while (peek() != kEnd && buffer_[at_] != separator_ && is_blank(buffer_[at_])) ++at_;
  if (peek() == '"') {
    quoted();
  } else {
    at_ = from;
    plain();
  }
  if (peek() == kEnd || skip_line_break()) return true;
  ++at_;  // the separator
  return false;
}

void CsvLines::plain() {
  std::size_t from = at_;
  for (; peek() != kEnd; ++at_)
    if (const char c = buffer_[at_]; c == separator_ || c == '\n' || c == '\r') break;
  std::size_t end = at_;
  while (from < end && is_blank(buffer_[from])) ++from;
  while (from < end && is_blank(buffer_[end - 1])) --end;
  places_.emplace_back(from, end - from);
}

// Reads a quoted field. Unescapes doubled quotes in place: the text after them moves left.
void CsvLines::quoted() {
  has_quotes_ = true;
  const std::size_t from = ++at_;
  std::size_t to = from;
  char last = '\0';
  for (;; ++at_) {
    if (peek() == kEnd) fail(places_.size(), "expected a quote at the end of the field, got the end of the file");
    if (buffer_[at_] == '"') {
      ++at_;
      if (peek() != '"') break;
    }
    const char c = buffer_[at_];
    buffer_[to++] = c;
    next_line_ += c == '\n' ? last != '\r' : c == '\r';  // CR LF counts once
    last = c;
  }
  while (peek() != kEnd && buffer_[at_] != separator_ && is_blank(buffer_[at_])) ++at_;
  if (peek() != kEnd && buffer_[at_] != separator_ && buffer_[at_] != '\n' && buffer_[at_] != '\r')
    fail(places_.size(), "expected a separator after the quote, got ",
         safetensors::shown(std::string_view(buffer_).substr(at_, 1)));
  places_.emplace_back(from, to - from);
}

bool CsvLines::skip_line_break() {
  const char c = buffer_[at_];
  if (c != '\n' && c != '\r') return false;
  ++at_;
  if (c == '\r' && peek() == '\n') ++at_;
  ++next_line_;
  return true;
}

}  // namespace lockstep::data
