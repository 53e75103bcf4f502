// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "data/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "io/safetensors_header.h"

namespace lockstep::data {
namespace {

using safetensors::shown;

constexpr std::uint64_t kMaxNpyHeader = 1 << 16;

// Parses for example {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Parser {
 public:
  Parser(const ByteSource& source, std::string_view header, std::uint64_t begin)
      : source_(source), text_(header), begin_(begin) {}

  NpyHeader parse() {
    expect('{');
    bool has_description = false, has_order = false, has_shape = false;
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        header_.description = description();
        has_description = true;
      } else if (key == "fortran_order") {
        header_.is_fortran = boolean();
        has_order = true;
      } else if (key == "shape") {
        shape();
        has_shape = true;
      } else {
        fail("descr, fortran_order and shape, got ", shown(key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!has_description || !has_order || !has_shape) fail("descr, fortran_order and shape, got fewer");
    return std::move(header_);
  }

 private:
  template <class... Expected>
  [[noreturn]] void fail(const Expected&... expected) const {
    source_.fail(begin_ + at_, "expected the header of an array with ", expected...);
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char token) {
    if (peek() != token || token == '\0') return false;
    ++at_;
    return true;
  }
  void expect(char token) {
    if (!take(token)) fail(token, ", got ", shown(text_.substr(at_, 20)));
  }
  std::string string() {
    const char quote = peek();
    const std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos) fail("a text, got ", shown(text_.substr(at_, 20)));
    std::string found(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return found;
  }
  // Reads the value of descr: a string, or, for a structured dtype, a list.
  std::string description() {
    if (peek() != '[') return string();
    const std::size_t begin = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\'' || text_[at_] == '"') {
        string();
        --at_;
      }
      depth += (text_[at_] == '[') - (text_[at_] == ']');
      if (depth == 0) return std::string(text_.substr(begin, ++at_ - begin));
    }
    fail("a text or a list, got the end of the header in it");
  }
  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)})
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::strlen(word);
        return value;
      }
    fail("True or False, got ", shown(text_.substr(at_, 20)));
  }
  void shape() {
    expect('(');
    while (!take(')')) {
      peek();
      std::int64_t size = 0;
      const char* first = text_.data() + at_;
      const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("sizes, got ", shown(text_.substr(at_, 20)));
      if (header_.sizes.rank() == Shape::kMaxRank) fail("at most ", Shape::kMaxRank, " dimensions, got more");
      at_ += std::size_t(end - first);
      header_.sizes.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  const ByteSource& source_;
  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
  NpyHeader header_;
};

}  // namespace

bool NpyHeader::is_numeric() const {
  const std::size_t order = description.find_first_not_of("<>|=");
  return order != description.npos && std::string_view("?biufc").find(description[order]) != std::string_view::npos;
}

NpyHeader read_npy_header(ByteSource& source) {
  std::array<char, 12> begin = {};
  const std::uint64_t size = source.size();
  if (size < begin.size()) source.fail(0, "expected an array of NumPy, got ", size, " bytes");
  if (!source.begins_with(kNpyMagic)) source.fail(0, "expected an array of NumPy, got another file");
  source.read(0, begin.data(), begin.size());
  const int version = begin[6];
  if (version < 1 || version > 3) source.fail(6, "expected version 1 to 3 of the format, got ", version);
  const std::uint64_t header_begin = version == 1 ? 10 : 12;
  std::uint32_t length = 0;
  std::memcpy(&length, begin.data() + 8, version == 1 ? 2 : 4);
  if (length > kMaxNpyHeader || length > size - header_begin)
    source.fail(8, "expected a header of at most ", std::min(kMaxNpyHeader, size - header_begin), " bytes, got ",
                length);
  const std::string header_text = source.bytes_at(header_begin, length);
  NpyHeader header = Parser(source, header_text, header_begin).parse();
  header.text_begin = header_begin;
  header.data_begin = header_begin + length;
  std::string description = header.description;
  if (description == "<b1" || description == "<u1") description[0] = '|';
  for (const auto& [name, dtype] : kNpyDTypes)
    if (name == description) header.dtype = dtype;
  return header;
}

}  // namespace lockstep::data
