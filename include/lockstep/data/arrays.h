// NumPy's npy and npz files (for tables of text see data/csv.h). Tensors are on the CPU. Files are not trusted: a size
// in a file is checked against the file's own size before memory is allocated. Safe from any thread.
#pragma once

#include <filesystem>

#include <lockstep/core/export.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/tensor/state_dict.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// Reads an array written by numpy.save, in C or Fortran order. Throws FormatError for a malformed file, for dtypes
/// that Lockstep does not have, for big-endian data, and for more than Shape::kMaxRank dimensions; IoError if the file
/// cannot be read.
LOCKSTEP_API Tensor read_npy(const std::filesystem::path& path);

/// Writes a tensor, on any device, for numpy.load. The file is written atomically. Throws InvalidArgument for an
/// undefined tensor, DTypeError for bfloat16, which NumPy does not have, and IoError.
LOCKSTEP_API void write_npy(const std::filesystem::path& path, const Tensor& tensor);

/// Reads the arrays of a numpy.savez file, by name, in the order of the file. Skips members that are not arrays, and
/// arrays of texts, objects or records (ReadOptions::on_skipped). Throws FormatError as read_npy() does, for compressed
/// arrays (numpy.savez_compressed), and for a wrong checksum.
LOCKSTEP_API StateDict read_npz(const std::filesystem::path& path, const ReadOptions& options = {});

/// Writes tensors, on any device, as numpy.savez does: uncompressed, each under its name. The file is written
/// atomically. Throws as write_npy() does, and InvalidArgument for a name that is not UTF-8 or is longer than 60,000
/// bytes.
LOCKSTEP_API void write_npz(const std::filesystem::path& path, const StateDict& arrays);

}  // namespace lockstep::data
