// Readers of data from any ByteSource: a file, or bytes of a test or fuzzer. They throw as the functions of the same
// names in lockstep/data, which open a file.
#pragma once

#include <lockstep/data/csv.h>
#include <lockstep/data/image.h>
#include <lockstep/io/safetensors.h>

#include "io/byte_source.h"

namespace lockstep::data {

Tensor read_npy(ByteSource& source);
StateDict read_npz(ByteSource& source, const ReadOptions& options);
Csv read_csv(ByteSource& source, const CsvOptions& options);
Tensor read_image(ByteSource& source, const ImageOptions& options);

}  // namespace lockstep::data
