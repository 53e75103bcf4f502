#include <lockstep/data/csv.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <unordered_map>

#include <lockstep/core/error.h>
#include <lockstep/ops/join.h>
#include <lockstep/tensor/creation.h>

#include "core/listed.h"
#include "core/text.h"
#include "data/csv_lines.h"
#include "data/readers.h"
#include "io/byte_source.h"
#include "io/safetensors_header.h"

namespace lockstep::data {
namespace {

using safetensors::shown;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// The categories of a text column.
struct Category {
  std::vector<std::string>* texts = nullptr;
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> numbers = {};  // text to category number
  bool takes_new_texts = false;
};

// A column to read. (There may be many columns, so the large Category is allocated separately.)
struct SelectedColumn {
  std::size_t column = 0;
  std::unique_ptr<Category> category = nullptr;
};

// True if a number that float64 cannot represent underflows, false if it overflows.
bool is_too_small(std::string_view digits) {
  const std::size_t e = std::min(digits.find_first_of("eE"), digits.size());
  std::int64_t exponent = 0;
  if (std::string_view power = digits.substr(e); power.size() > 1) {
    power.remove_prefix(power[1] == '+' ? 2 : 1);
    if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec == std::errc::result_out_of_range)
      return power.starts_with('-');
  }
  const std::string_view fraction = digits.substr(0, e);
  const auto first = std::int64_t(fraction.find_first_of("123456789"));  // -1 if the number is 0
  const auto point = std::int64_t(std::min(fraction.find('.'), fraction.size()));
  return first < 0 || exponent <= (first < point ? first - point : first - point - 1);
}

// The smallest number that rounds to infinity in this dtype.
double overflow_of(DType dtype) {
  switch (dtype) {
    case kFloat16: return 65520;
    case kBFloat16: return 0x1.ffp127;
    case kFloat32: return 0x1.ffffffp127;
    default: return std::numeric_limits<double>::infinity();
  }
}

template <class T>
T number(const CsvLines& lines, std::size_t column, std::string_view field, const CsvOptions& options) {
  if (options.missing && (field.empty() || std::ranges::find(options.na_values, field) != options.na_values.end()))
    return T(*options.missing);
  std::string_view digits = field;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  T value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = !digits.empty() && end == digits.data() + digits.size();
  if constexpr (std::is_floating_point_v<T>) {
    if (is_whole && error == std::errc::result_out_of_range && is_too_small(digits))
      return digits.starts_with('-') ? -0.0 : 0.0;
    const bool is_too_large = error == std::errc::result_out_of_range ||
                              (std::isfinite(value) && std::abs(value) >= overflow_of(options.dtype));
    if (is_whole && is_too_large)
      lines.fail(column, "expected a number that ", options.dtype, " holds, got ", shown(field));
  }
  if (error != std::errc() || !is_whole)
    lines.fail(column, "expected ", std::is_integral_v<T> ? "an integer" : "a number", ", got ", shown(field));
  return value;
}

std::int64_t number_of(const CsvLines& lines, std::size_t column, Category& category, std::string_view field) {
  const auto found = category.numbers.find(field);
  if (found != category.numbers.end()) return found->second;
  if (!category.takes_new_texts)
    lines.fail(column, "expected one of ", category.texts->size(), " categories, got ", shown(field));
  const auto number = std::int64_t(category.texts->size());
  category.texts->emplace_back(field);
  category.numbers.emplace(field, number);
  return number;
}

// Sorts the categories, which were numbered in order of appearance, and renumbers the values.
template <class T>
void sort_categories(std::vector<SelectedColumn>& selected, std::vector<T>& values) {
  for (std::size_t i = 0; i < selected.size(); ++i) {
    if (!selected[i].category || !selected[i].category->takes_new_texts) continue;
    std::vector<std::string>& texts = *selected[i].category->texts;
    const std::vector<std::string> came = texts;
    std::ranges::sort(texts);
    std::vector<T> sorted;
    for (const std::string& each : came) sorted.push_back(T(std::ranges::lower_bound(texts, each) - texts.begin()));
    for (std::size_t at = i; at < values.size(); at += selected.size()) values[at] = sorted[std::size_t(values[at])];
  }
}

template <class T>
Tensor read_rows(CsvLines& lines, std::vector<std::string_view>& fields, bool has_line,
                 std::vector<SelectedColumn>& selected, std::size_t width, const CsvOptions& options) {
  std::vector<T> values;
  std::int64_t rows = 0;
  for (; has_line; has_line = lines.next(fields), ++rows) {
    if (fields.size() != width)
      lines.fail(std::min(fields.size(), width) - 1, "expected ", width, " fields, got ", fields.size());
    for (SelectedColumn& each : selected) {
      const std::string_view field = fields[each.column];
      values.push_back(each.category ? T(number_of(lines, each.column, *each.category, field))
                                     : number<T>(lines, each.column, field, options));
    }
  }
  sort_categories(selected, values);
  return from_host(values.data(), values.size(), kDTypeOf<T>, {rows, std::int64_t(selected.size())},
                   {.dtype = options.dtype});
}

void check_options(const CsvOptions& options) {
  if (!is_floating(options.dtype) && options.dtype != kInt64)
    throw DTypeError(text("[read_csv] expected a floating dtype or int64, got ", options.dtype));
  if (!options.header && !(options.columns.empty() && options.categories.empty()))
    throw InvalidArgument(
        "[read_csv] expected a header, because .columns and .categories have column names; got .header = false");
  if (options.separator == '"' || options.separator == '\n' || options.separator == '\r')
    throw InvalidArgument(text("[read_csv] expected a separator other than a quote or a line break, got ",
                               shown(std::string_view(&options.separator, 1))));
  constexpr double kInt64End = 9223372036854775808.0;
  if (const auto missing = options.missing; missing && options.dtype == kInt64)
    if (!(*missing >= -kInt64End && *missing < kInt64End && std::trunc(*missing) == *missing))
      throw InvalidArgument(text("[read_csv] expected an integer as .missing of an int64 table, got ", *missing));
}

// Returns the position of the only column of that name.
std::size_t column_index(const char* op, const std::vector<std::string>& columns, std::string_view name,
                         const std::string& where) {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end())
    throw InvalidArgument(
        text('[', op, "] expected an existing column (", listed(columns, shown), ')', where, ", got ", shown(name)));
  if (std::find(found + 1, columns.end(), name) != columns.end())
    throw InvalidArgument(text('[', op, "] expected one column ", shown(name), where, ", got several"));
  return std::size_t(found - columns.begin());
}

// Throws InvalidArgument if a column has so many categories that `dtype` cannot represent all their numbers exactly.
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

// Returns the columns to read, of `width` in the file, with the categories of text columns.
std::vector<SelectedColumn> selected_columns(Csv& table, std::size_t width, const CsvOptions& options,
                                             const std::string& where) {
  std::vector<SelectedColumn> selected;
  if (options.columns.empty()) {
    for (std::size_t i = 0; i < width; ++i) selected.push_back({.column = i});
  } else {
    for (const std::string& name : options.columns)
      selected.push_back({.column = column_index("read_csv", table.columns, name, where)});
  }
  for (const auto& [name, texts] : options.categories) {
    const std::size_t column = column_index("read_csv", table.columns, name, where);
    for (SelectedColumn& each : selected) {
      if (each.column != column) continue;
      each.category = std::make_unique<Category>();
      each.category->texts = &(table.categories[name] = texts);
      each.category->takes_new_texts = texts.empty();
      for (std::size_t i = 0; i < texts.size(); ++i)
        if (!each.category->numbers.emplace(texts[i], std::int64_t(i)).second)
          throw InvalidArgument(
              text("[read_csv] expected different categories of ", shown(name), ", got ", shown(texts[i]), " twice"));
    }
  }
  return selected;
}

}  // namespace

Tensor Csv::column(std::string_view name) const {
  return values.select(1, std::int64_t(column_index("Csv", columns, name, "")));
}

Tensor Csv::select(const std::vector<std::string>& names) const {
  if (names.empty()) throw InvalidArgument("[Csv] expected names of columns, got none");
  std::vector<Tensor> selected;
  for (const std::string& name : names) selected.push_back(column(name));
  return stack(selected, 1);
}

Csv read_csv(ByteSource& source, const CsvOptions& options) {
  check_options(options);
  CsvLines lines(source, options.separator);
  std::vector<std::string_view> fields;
  bool has_line = lines.next(fields);
  const std::size_t width = has_line ? fields.size() : 0;
  Csv table;
  if (options.header && has_line) {
    table.columns.assign(fields.begin(), fields.end());
    has_line = lines.next(fields);
  }
  std::vector<SelectedColumn> selected =
      selected_columns(table, width, options, text(" in ", std::filesystem::path(source.name())));
  if (!options.columns.empty()) table.columns = options.columns;
  table.values = options.dtype == kInt64 ? read_rows<std::int64_t>(lines, fields, has_line, selected, width, options)
                                         : read_rows<double>(lines, fields, has_line, selected, width, options);
  check_categories(table, options.dtype);
  return table;
}

Csv read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  check_options(options);
  FileSource source(path, Links::follow, "read_csv");
  return read_csv(source, options);
}

}  // namespace lockstep::data
