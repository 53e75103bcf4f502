#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/data/arrays.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "io/byte_source.h"
#include "io/safetensors_header.h"

namespace lockstep::data {
namespace {

using safetensors::shown;

std::string_view trimmed(std::string_view field) {
  const std::size_t first = field.find_first_not_of(" \t");
  return first == field.npos ? std::string_view() : field.substr(first, field.find_last_not_of(" \t") - first + 1);
}

// The file field by field. A line may be several lines of the file, where a quoted field has line breaks.
class Lines {
 public:
  Lines(std::string name, std::string_view text, char separator)
      : name_(std::move(name)), text_(text), separator_(separator) {}

  /// Of the fields last read, for messages.
  std::uint64_t line() const { return line_; }

  [[noreturn]] void fail(std::size_t column, const std::string& reason) const {
    throw FormatError(name_, begin_, text("line ", line_, ", column ", column + 1, ": ", reason));
  }

  /// Whether there was a line that is not empty.
  bool next(std::vector<std::string>& fields) {
    while (at_ < text_.size()) {
      begin_ = at_;
      line_ = next_line_;
      fields.clear();
      bool ends = false;
      while (!ends) ends = field(fields);
      if (fields.size() > 1 || !fields[0].empty()) return true;
    }
    return false;
  }

 private:
  // Whether it was the last of its line.
  bool field(std::vector<std::string>& fields) {
    std::size_t at = at_;
    while (at < text_.size() && text_[at] != separator_ && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    if (at < text_.size() && text_[at] == '"') {
      fields.push_back(quoted(at + 1, fields.size()));
    } else {
      const std::string_view rest = text_.substr(at_);
      const char ends[] = {separator_, '\n', '\0'};
      const std::size_t length = std::min(rest.find_first_of(ends, 0, 2), rest.size());
      std::string_view value = rest.substr(0, length);
      if (value.ends_with('\r')) value.remove_suffix(1);
      fields.emplace_back(trimmed(value));
      at_ += length;
    }
    if (at_ == text_.size()) return true;
    if (text_[at_++] == separator_) return false;
    ++next_line_;
    return true;
  }

  std::string quoted(std::size_t at, std::size_t column) {
    std::string value;
    for (;; ++at) {
      if (at == text_.size()) fail(column, "expected a quote at the end of the field, got the end of the file");
      if (text_[at] == '"' && !text_.substr(at + 1).starts_with('"')) break;
      if (text_[at] == '"') ++at;  // two stand for one
      next_line_ += text_[at] == '\n';
      value += text_[at];
    }
    ++at;
    while (at < text_.size() && text_[at] != separator_ && (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\r'))
      ++at;
    if (at < text_.size() && text_[at] != separator_ && text_[at] != '\n')
      fail(column, "expected a separator after the quote, got " + shown(text_.substr(at, 1)));
    at_ = at;
    return value;
  }

  std::string name_;
  std::string_view text_;
  char separator_;
  std::size_t at_ = 0, begin_ = 0;
  std::uint64_t line_ = 0, next_line_ = 1;
};

template <class T>
T number(const Lines& lines, std::size_t column, const std::string& field, const std::optional<double>& missing) {
  std::string_view digits = field;
  if (digits.empty() && missing) return T(*missing);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  T value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
    lines.fail(column, text("expected ", std::is_integral_v<T> ? "an integer" : "a number", ", got ", shown(field)));
  return value;
}

template <class T>
Tensor read_rows(Lines& lines, std::vector<std::string>& fields, bool has_line, const std::vector<std::size_t>& wanted,
                 std::size_t width, const CsvOptions& options) {
  std::vector<T> values;
  std::int64_t rows = 0;
  for (; has_line; has_line = lines.next(fields), ++rows) {
    if (fields.size() != width)
      lines.fail(std::min(fields.size(), width) - 1, text("expected ", width, " fields, got ", fields.size()));
    for (const std::size_t column : wanted) values.push_back(number<T>(lines, column, fields[column], options.missing));
  }
  return from_host(values.data(), values.size(), kDTypeOf<T>, {rows, std::int64_t(wanted.size())},
                   {.dtype = options.dtype});
}

}  // namespace

Csv read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  if (!is_floating(options.dtype) && options.dtype != kInt64)
    throw DTypeError(text("[read_csv] expected a floating dtype or int64, got ", options.dtype));
  if (!options.columns.empty() && !options.header)
    throw InvalidArgument("[read_csv] expected a header for columns by name, got .header = false");
  if (options.separator == '"' || options.separator == '\n' || options.separator == '\r')
    throw InvalidArgument("[read_csv] expected a separator that is no quote and no line break, got one");
  FileSource source(path, Links::follow, "read_csv");
  std::string bytes(std::size_t(source.size()), '\0');
  source.read(0, bytes.data(), bytes.size());
  std::string_view content = bytes;
  if (content.starts_with("\xef\xbb\xbf")) content.remove_prefix(3);

  Lines lines(source.name(), content, options.separator);
  std::vector<std::string> fields;
  bool has_line = lines.next(fields);
  const std::size_t width = has_line ? fields.size() : 0;
  Csv table;
  std::vector<std::size_t> wanted(width);
  for (std::size_t i = 0; i < width; ++i) wanted[i] = i;
  if (options.header && has_line) {
    table.columns = fields;
    has_line = lines.next(fields);
  }
  if (!options.columns.empty()) {
    wanted.clear();
    for (const std::string& name : options.columns) {
      const auto found = std::ranges::find(table.columns, name);
      if (found == table.columns.end())
        throw InvalidArgument(text("[read_csv] expected a column ", shown(name), " in ", path, ", got none"));
      wanted.push_back(std::size_t(found - table.columns.begin()));
    }
    table.columns = options.columns;
  }
  table.values = options.dtype == kInt64 ? read_rows<std::int64_t>(lines, fields, has_line, wanted, width, options)
                                         : read_rows<double>(lines, fields, has_line, wanted, width, options);
  return table;
}

}  // namespace lockstep::data
