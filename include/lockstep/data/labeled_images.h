// Readers of two common image data sets: MNIST (idx files) and CIFAR-10 (binary files). Nothing is downloaded. Safe
// from any thread.
//
//   const data::LabeledImages digits = data::read_mnist("mnist", data::Part::train);
//   data::TensorDataset dataset(digits.images.to(kFloat32) / 255, digits.labels);
#pragma once

#include <cstdint>
#include <filesystem>

#include <lockstep/core/export.h>
#include <lockstep/core/members.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// The training set or the test set.
enum class Part : std::uint8_t { train, test };

/// images: uint8 [count, channels, height, width]; labels: int64 [count]. On the CPU.
struct LabeledImages {
  Tensor images, labels;  ///< as described above
  auto members() { return lockstep::members("images", images, "labels", labels); }
};

/// Reads MNIST, or data sets in its format (Fashion-MNIST, KMNIST): train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, in `folder` or in `folder`/MNIST/raw. (Names with a dot before
/// idx, such as train-images.idx3-ubyte, are found too.) The files must be unpacked; if there are only .gz files,
/// InvalidArgument says so. Throws FormatError for a malformed file, IoError if a file cannot be read.
LOCKSTEP_API LabeledImages read_mnist(const std::filesystem::path& folder, Part part);

/// Reads CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin, or test_batch.bin, in `folder` or in
/// `folder`/cifar-10-batches-bin. images: uint8 [count, 3, 32, 32]. Throws as read_mnist() does.
LOCKSTEP_API LabeledImages read_cifar10(const std::filesystem::path& folder, Part part);

/// Returns the bytes of a file, uint8 [size], for example a text for a model of bytes. Throws IoError.
LOCKSTEP_API Tensor read_bytes(const std::filesystem::path& path);

}  // namespace lockstep::data
