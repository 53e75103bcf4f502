// Tables as text (CSV): numbers, and texts as the numbers of their categories. Tensors are on the CPU.
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

/// By the name of a column, the texts that stand there: the value of a text is its place in the list.
using CsvCategories = std::map<std::string, std::vector<std::string>>;

struct CsvOptions {
  char separator = ',';                   ///< Between fields.
  bool header = true;                     ///< The first line has the names of the columns.
  std::vector<std::string> columns = {};  ///< Those to read, in this order; all if empty. Needs a header.
  DType dtype = kFloat32;                 ///< Floating or int64.
  std::optional<double> missing = {};  ///< What a missing number stands for, such as NAN; without it, it is an error.
  std::vector<std::string> na_values =
      {};  ///< Texts that stand for a missing number, such as "NA"; empty fields do anyway.
  /// Columns of texts. An empty list takes the texts that the column has, sorted; in another list, which is that of the
  /// file that a model learned from, every text must be. A field that is empty is a text, too. Needs a header.
  CsvCategories categories = {};
};

/// A table.
struct LOCKSTEP_API Csv {
  std::vector<std::string> columns;  ///< Empty without a header.
  Tensor values;                     ///< [rows, columns]
  CsvCategories categories = {};     ///< Of the columns of texts that were read: all texts, by number.

  /// [rows], a view. Throws InvalidArgument unless one column has that name.
  Tensor column(std::string_view name) const;
  /// [rows, names], a copy. Throws as column() does.
  Tensor select(const std::vector<std::string>& names) const;
};

/// Numbers, and texts in the columns of options.categories, in lines of one length, read the same in every locale.
/// Lines end with LF, CR LF or CR. Fields may stand in double quotes (RFC 4180); blanks around a field are left out,
/// and so are empty lines; "" is a field. A number too close to 0 for the dtype is 0, one too large for it is an error.
/// Other columns than those that are read may hold any text. Throws FormatError naming the line and the column,
/// InvalidArgument for a column that is not there, or is there twice, and for `missing` that the dtype cannot hold,
/// IoError.
LOCKSTEP_API Csv read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace lockstep::data
