// Arrays in files of other programs: NumPy's npy and npz, and tables of numbers as text (CSV). Tensors are on the CPU.
// Files are not trusted: nothing is allocated by a size in a file before it has been held against the file's own size.
// Safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/tensor/state_dict.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// An array that numpy.save wrote, in Fortran's order too. Throws FormatError for what breaks the format, for dtypes
/// that Lockstep does not hold and for big-endian ones, and for more than Shape::kMaxRank dimensions; IoError where the
/// file cannot be read.
LOCKSTEP_API Tensor read_npy(const std::filesystem::path& path);

/// Writes a tensor, from wherever it is, as numpy.load reads it. The file appears whole or not at all. Throws
/// InvalidArgument for an undefined tensor, DTypeError for bfloat16, which NumPy does not have, and IoError.
LOCKSTEP_API void write_npy(const std::filesystem::path& path, const Tensor& tensor);

/// The arrays of a file that numpy.savez wrote, by name, in the order of the file. Throws FormatError as read_npy(),
/// and for compressed arrays (numpy.savez_compressed).
LOCKSTEP_API StateDict read_npz(const std::filesystem::path& path);

struct CsvOptions {
  char separator = ',';                   ///< Between fields.
  bool header = true;                     ///< The first line has the names of the columns.
  std::vector<std::string> columns = {};  ///< Those to read, in this order; all if empty. Needs a header.
  DType dtype = kFloat32;                 ///< Floating or int64.
  std::optional<double> missing = {};     ///< What an empty field stands for; without it, it is an error.
};

/// A table of numbers.
struct Csv {
  std::vector<std::string> columns;  ///< Empty without a header.
  Tensor values;                     ///< [rows, columns]
};

/// Numbers in lines of one length, read the same in every locale. Fields may stand in double quotes (RFC 4180); blanks
/// around a field are left out, and so are empty lines. Other columns than those that are read may hold any text.
/// Throws FormatError naming the line and the column, InvalidArgument for a column that is not there, IoError.
LOCKSTEP_API Csv read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace lockstep::data
