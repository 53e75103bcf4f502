// What stands before the data of a NumPy array in a file. Pure functions of bytes; files are not trusted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

#include "io/byte_source.h"

namespace lockstep::data {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::array<std::pair<std::string_view, DType>, 7> kNpyDTypes = {{{"|b1", kBool},
                                                                                  {"|u1", kUInt8},
                                                                                  {"<i4", kInt32},
                                                                                  {"<i8", kInt64},
                                                                                  {"<f2", kFloat16},
                                                                                  {"<f4", kFloat32},
                                                                                  {"<f8", kFloat64}}};

struct NpyHeader {
  std::string description = {};     ///< NumPy's name of the dtype, or the list of a structured one.
  std::optional<DType> dtype = {};  ///< Nothing for one that Lockstep does not hold.
  bool is_fortran = false;          ///< Whether the first size counts fastest.
  Shape sizes = {};
  std::uint64_t text_begin = 0, data_begin = 0;  ///< Bytes of the file.

  /// Whether the elements are numbers, of any size and byte order.
  bool is_numeric() const;
};

/// Whether it begins as an array does.
bool is_npy(ByteSource& source);
/// Throws FormatError.
NpyHeader read_npy_header(ByteSource& source);

}  // namespace lockstep::data
