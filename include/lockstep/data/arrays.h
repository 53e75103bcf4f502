// Arrays in files of other programs: NumPy's npy and npz (tables of text: data/csv.h). Tensors are on the CPU.
// Files are not trusted: nothing is allocated by a size in a file before it has been held against the file's own size.
// Safe from any thread.
#pragma once

#include <filesystem>

#include <lockstep/core/export.h>
#include <lockstep/io/safetensors.h>
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

/// The arrays of a file that numpy.savez wrote, by name, in the order of the file. Members that are no arrays and
/// arrays of texts, objects or records are left out (ReadOptions::left_out). Throws FormatError as read_npy(), for
/// compressed arrays (numpy.savez_compressed), and where a checksum does not fit.
LOCKSTEP_API StateDict read_npz(const std::filesystem::path& path, const ReadOptions& options = {});

/// Writes tensors, from wherever they are, as numpy.savez does: uncompressed, each under its name. The file appears
/// whole or not at all. Throws as write_npy() does, and InvalidArgument for a name that is not UTF-8 or longer than
/// 60,000 bytes.
LOCKSTEP_API void write_npz(const std::filesystem::path& path, const StateDict& arrays);

}  // namespace lockstep::data
