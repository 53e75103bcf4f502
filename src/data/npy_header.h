// The header of a NumPy array in a file. Pure functions of bytes; files are not trusted.
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

/// The first bytes of a file.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::array<std::pair<std::string_view, DType>, 7> kNpyDTypes = {{{"|b1", kBool},
                                                                                  {"|u1", kUInt8},
                                                                                  {"<i4", kInt32},
                                                                                  {"<i8", kInt64},
                                                                                  {"<f2", kFloat16},
                                                                                  {"<f4", kFloat32},
                                                                                  {"<f8", kFloat64}}};

struct NpyHeader {
  std::string description = {};     ///< NumPy's dtype string, or the list of a structured dtype.
  std::optional<DType> dtype = {};  ///< Nullopt for a dtype that Lockstep does not have.
  bool is_fortran = false;          ///< True for column-major order.
  Shape sizes = {};
  std::uint64_t text_begin = 0, data_begin = 0;  ///< Positions in the file, in bytes.

  /// True if the elements are numbers, of any size and byte order.
  bool is_numeric() const;
};

/// Throws FormatError.
NpyHeader read_npy_header(ByteSource& source);

}  // namespace lockstep::data
