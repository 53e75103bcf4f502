// Labeled images for training and test: from files, or generated.
#pragma once

#include <lockstep/lockstep.h>

#include <vector>

#include "arguments.h"

struct ImageSets {
  lockstep::data::TensorDataset<2> training, test;  // float32 [count, channels, height, width] in [0, 1]; int64 [count]
};

inline lockstep::data::TensorDataset<2> dataset_of(const lockstep::data::LabeledImages& set) {
  using namespace lockstep;
  return data::TensorDataset(set.images.dtype() == kUInt8 ? set.images.to(kFloat32) / 255 : set.images, set.labels);
}

inline lockstep::data::LabeledImages drawn_digits(std::int64_t count, std::uint64_t seed,
                                                  std::int64_t image_size = 28) {
  const lockstep::data::SyntheticDigits digits(count, {.seed = seed, .image_size = image_size});
  std::vector<lockstep::Tensor> images;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    auto [image, label] = digits.get(i);
    images.push_back(image);
    labels.push_back(label);
  }
  return {lockstep::stack(images), lockstep::tensor(labels)};
}

// Digits in a random bright colour on a random dark one: [count, 3, 32, 32].
inline lockstep::data::LabeledImages coloured_digits(std::int64_t count, std::uint64_t seed) {
  const auto [digits, labels] = drawn_digits(count, seed, 32);
  const lockstep::Tensor front = 1 - 0.5 * lockstep::rand({count, 3, 1, 1}),
                         back = 0.5 * lockstep::rand({count, 3, 1, 1});
  return {digits * front + (1 - digits) * back, labels};
}

// MNIST from the files in the folder of --data, or generated digits: --samples for training, and 1000 for the test.
inline ImageSets digits(const Arguments& arguments, std::int64_t samples) {
  using namespace lockstep::data;
  if (arguments.has("--data")) {
    const std::string folder = arguments.text("--data");
    return {dataset_of(read_mnist(folder, Part::train)), dataset_of(read_mnist(folder, Part::test))};
  }
  return {dataset_of(drawn_digits(arguments.number("--samples", samples), 1)), dataset_of(drawn_digits(1000, 2))};
}

inline lockstep::Tensor accuracy(const lockstep::Tensor& scores, const lockstep::Tensor& labels) {
  return lockstep::mean(lockstep::eq(lockstep::argmax(scores, 1), labels).to(lockstep::kFloat32));
}
