#include <lockstep/data/csv.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include <lockstep/core/error.h>
#include <lockstep/ops/join.h>
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

// A column that is read.
struct Wanted {
  std::size_t column = 0;
  std::vector<std::string>* texts = nullptr;                   // of a column of texts
  std::unordered_map<std::string, std::int64_t> numbers = {};  // of the texts
  bool takes_new_texts = false;
};

template <class T>
T number(const Lines& lines, std::size_t column, const std::string& field, const CsvOptions& options) {
  std::string_view digits = field;
  if (options.missing && (digits.empty() || std::ranges::find(options.na_values, field) != options.na_values.end()))
    return T(*options.missing);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  T value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
    lines.fail(column, text("expected ", std::is_integral_v<T> ? "an integer" : "a number", ", got ", shown(field)));
  return value;
}

std::int64_t category(const Lines& lines, Wanted& wanted, const std::string& field) {
  const auto found = wanted.numbers.find(field);
  if (found != wanted.numbers.end()) return found->second;
  if (!wanted.takes_new_texts)
    lines.fail(wanted.column, text("expected one of ", wanted.texts->size(), " categories, got ", shown(field)));
  const auto number = std::int64_t(wanted.texts->size());
  wanted.texts->push_back(field);
  wanted.numbers.emplace(field, number);
  return number;
}

// Texts were numbered as they came: now by their order.
template <class T>
void sort_categories(std::vector<Wanted>& wanted, std::vector<T>& values) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i].takes_new_texts) continue;
    std::vector<std::string>& texts = *wanted[i].texts;
    const std::vector<std::string> came = texts;
    std::ranges::sort(texts);
    std::vector<T> sorted;
    for (const std::string& each : came) sorted.push_back(T(std::ranges::lower_bound(texts, each) - texts.begin()));
    for (std::size_t at = i; at < values.size(); at += wanted.size()) values[at] = sorted[std::size_t(values[at])];
  }
}

template <class T>
Tensor read_rows(Lines& lines, std::vector<std::string>& fields, bool has_line, std::vector<Wanted>& wanted,
                 std::size_t width, const CsvOptions& options) {
  std::vector<T> values;
  std::int64_t rows = 0;
  for (; has_line; has_line = lines.next(fields), ++rows) {
    if (fields.size() != width)
      lines.fail(std::min(fields.size(), width) - 1, text("expected ", width, " fields, got ", fields.size()));
    for (Wanted& each : wanted) {
      const std::string& field = fields[each.column];
      values.push_back(each.texts ? T(category(lines, each, field)) : number<T>(lines, each.column, field, options));
    }
  }
  sort_categories(wanted, values);
  return from_host(values.data(), values.size(), kDTypeOf<T>, {rows, std::int64_t(wanted.size())},
                   {.dtype = options.dtype});
}

void check_options(const CsvOptions& options) {
  if (!is_floating(options.dtype) && options.dtype != kInt64)
    throw DTypeError(text("[read_csv] expected a floating dtype or int64, got ", options.dtype));
  if (!options.header && !(options.columns.empty() && options.categories.empty()))
    throw InvalidArgument("[read_csv] expected a header for columns by name, got .header = false");
  if (options.separator == '"' || options.separator == '\n' || options.separator == '\r')
    throw InvalidArgument("[read_csv] expected a separator that is no quote and no line break, got one");
  constexpr double kInt64End = 9223372036854775808.0;
  if (const auto missing = options.missing; missing && options.dtype == kInt64)
    if (!(*missing >= -kInt64End && *missing < kInt64End && std::trunc(*missing) == *missing))
      throw InvalidArgument(text("[read_csv] expected an integer as .missing of an int64 table, got ", *missing));
}

// The place of the one column of that name.
std::size_t place_of(const char* op, const std::vector<std::string>& columns, std::string_view name,
                     const std::string& where) {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end())
    throw InvalidArgument(text('[', op, "] expected a column ", shown(name), where, ", got none"));
  if (std::find(found + 1, columns.end(), name) != columns.end())
    throw InvalidArgument(text('[', op, "] expected one column ", shown(name), where, ", got several"));
  return std::size_t(found - columns.begin());
}

// What float16 and its kin cannot count to is no number of a category.
void check_categories(const Csv& table, DType dtype) {
  const std::size_t most = dtype == kBFloat16  ? 256
                           : dtype == kFloat16 ? 2048
                           : dtype == kFloat32 ? std::size_t(1) << 24
                                               : std::size_t(1) << 53;
  for (const auto& [name, texts] : table.categories)
    if (texts.size() > most)
      throw InvalidArgument(text("[read_csv] expected at most ", most, " categories in ", shown(name), " for ", dtype,
                                 ", got ", texts.size()));
}

// The columns to read, with the texts that each may have.
std::vector<Wanted> wanted_columns(Csv& table, const CsvOptions& options, const std::string& where) {
  std::vector<Wanted> wanted;
  if (options.columns.empty()) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) wanted.push_back({.column = i});
  } else {
    for (const std::string& name : options.columns)
      wanted.push_back({.column = place_of("read_csv", table.columns, name, where)});
  }
  for (const auto& [name, texts] : options.categories) {
    const std::size_t column = place_of("read_csv", table.columns, name, where);
    for (Wanted& each : wanted) {
      if (each.column != column) continue;
      each.texts = &(table.categories[name] = texts);
      each.takes_new_texts = texts.empty();
      for (std::size_t i = 0; i < texts.size(); ++i)
        if (!each.numbers.emplace(texts[i], std::int64_t(i)).second)
          throw InvalidArgument(
              text("[read_csv] expected different categories of ", shown(name), ", got ", shown(texts[i]), " twice"));
    }
  }
  return wanted;
}

}  // namespace

Tensor Csv::column(std::string_view name) const {
  return values.select(1, std::int64_t(place_of("Csv", columns, name, "")));
}

Tensor Csv::select(const std::vector<std::string>& names) const {
  if (names.empty()) throw InvalidArgument("[Csv] expected names of columns, got none");
  std::vector<Tensor> selected;
  for (const std::string& name : names) selected.push_back(column(name));
  return stack(selected, 1);
}

Csv read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  check_options(options);
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
  std::vector<Wanted> wanted;
  if (options.header) {
    if (has_line) {
      table.columns = fields;
      has_line = lines.next(fields);
    }
    wanted = wanted_columns(table, options, text(" in ", path));
  } else {
    for (std::size_t i = 0; i < width; ++i) wanted.push_back({.column = i});
  }
  if (!options.columns.empty()) table.columns = options.columns;
  table.values = options.dtype == kInt64 ? read_rows<std::int64_t>(lines, fields, has_line, wanted, width, options)
                                         : read_rows<double>(lines, fields, has_line, wanted, width, options);
  check_categories(table, options.dtype);
  return table;
}

}  // namespace lockstep::data
