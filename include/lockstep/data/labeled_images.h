// Readers of the data sets that image models are tried on: MNIST (idx files) and CIFAR-10 (binary files).
// Nothing is downloaded. Safe from any thread.
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

/// What a model learns from, and what it is tested with.
enum class Part : std::uint8_t { train, test };

/// images: uint8 [count, channels, height, width]; labels: int64 [count]. On the CPU.
struct LabeledImages {
  Tensor images, labels;  ///< See above.
  auto members() { return lockstep::members("images", images, "labels", labels); }
};

/// MNIST, and what has its form (Fashion-MNIST, KMNIST): train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, in `folder` or in its folder MNIST/raw. (A dot may stand in the
/// name in place of the last dash but one.) The files must be unpacked: InvalidArgument says so where only .gz files
/// are there. Throws FormatError for what breaks the format, IoError where a file cannot be read.
LOCKSTEP_API LabeledImages read_mnist(const std::filesystem::path& folder, Part part);

/// CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin or test_batch.bin, in `folder` or in its folder
/// cifar-10-batches-bin. images: uint8 [count, 3, 32, 32]. Throws as read_mnist().
LOCKSTEP_API LabeledImages read_cifar10(const std::filesystem::path& folder, Part part);

/// The bytes of a file: uint8 [size]. A text is read this way for a model of bytes. Throws IoError.
LOCKSTEP_API Tensor read_bytes(const std::filesystem::path& path);

}  // namespace lockstep::data
