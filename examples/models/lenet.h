// LeNet-5 (LeCun et al. 1998) with ReLU and max pooling, for square images.
#pragma once

#include <lockstep/lockstep.h>

struct LeNet : lockstep::nn::Module<LeNet> {
  lockstep::nn::Conv2d conv1, conv2;
  lockstep::nn::Linear fc1, fc2, fc3;

  // Images: [batch, channels, image_size, image_size]; image_size is at least 16.
  explicit LeNet(std::int64_t channels = 1, std::int64_t image_size = 28, std::int64_t classes = 10)
      : conv1(channels, 6, 5),
        conv2(6, 16, 5),
        fc1(16 * after_pools(image_size) * after_pools(image_size), 120),
        fc2(120, 84),
        fc3(84, classes) {}

  auto members() { return lockstep::nn::members("conv1", conv1, "conv2", conv2, "fc1", fc1, "fc2", fc2, "fc3", fc3); }

  lockstep::Tensor forward(const lockstep::Tensor& images) {
    using namespace lockstep;
    Tensor x = max_pool2d(relu(conv1(images)), 2);
    x = max_pool2d(relu(conv2(x)), 2).flatten(1);
    return fc3(relu(fc2(relu(fc1(x)))));
  }

 private:
  static std::int64_t after_pools(std::int64_t size) { return ((size - 4) / 2 - 4) / 2; }
};
