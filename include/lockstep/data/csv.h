// CSV tables: columns of numbers, and columns of texts, read as category numbers. Tensors are on the CPU.
//
//   const data::Csv table = data::read_csv("homes.csv", {.missing = NAN, .categories = {{"city", {}}}});
//   Tensor price = table.column("price");                     // [rows]
//   Tensor city = table.column("city").to(kInt64);            // indices for nn::Embedding
//   Tensor inputs = table.select({"area", "rooms"});          // [rows, 2]
//   data::read_csv("more.csv", {.missing = NAN, .categories = table.categories});  // the same numbers for the texts
//
// Files are not trusted. Safe from any thread.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// For each text column, the list of its categories; the value of a text is its position in the list.
using CsvCategories = std::map<std::string, std::vector<std::string>>;

struct CsvOptions {
  char separator = ',';                   ///< Separates fields.
  bool header = true;                     ///< The first line holds the column names.
  std::vector<std::string> columns = {};  ///< Columns to read, in this order; all if empty. Needs a header.
  DType dtype = kFloat32;                 ///< Floating or int64.
  /// The value for a missing number, such as NAN; without it, a missing number is an error.
  std::optional<double> missing = {};
  std::vector<std::string> na_values =
      {};  ///< Texts that stand for a missing number, such as "NA"; empty fields always do.
  /// Text columns and their categories. An empty list means the texts in the file, sorted. With a list, for example
  /// that of the training file, every text of the column must be in it. An empty field is a text too. Needs a header.
  CsvCategories categories = {};
};

/// A table of numbers and category numbers.
struct LOCKSTEP_API Csv {
  std::vector<std::string> columns;  ///< Empty without a header.
  Tensor values;                     ///< [rows, columns]
  CsvCategories categories = {};     ///< The categories of the text columns that were read.

  /// Returns a column [rows], a view. Throws InvalidArgument unless exactly one column has that name.
  Tensor column(std::string_view name) const;
  /// Returns several columns [rows, names], a copy. Throws as column() does.
  Tensor select(const std::vector<std::string>& names) const;
};

/// Reads lines of equally many fields: numbers, and texts in the columns of options.categories. The result does
/// not depend on the locale. Lines end with LF, CR LF or CR. Fields may be in double quotes (RFC 4180). Blanks
/// around a field are dropped, and so are empty lines, but "" is a field. A number too small for the dtype becomes
/// 0; one too large is an error. Columns that are not read may hold any text. Throws FormatError naming line and
/// column, InvalidArgument if a column is missing or appears twice or if the dtype cannot hold `missing`, and
/// IoError.
LOCKSTEP_API Csv read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace lockstep::data
