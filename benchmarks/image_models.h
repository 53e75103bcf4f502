// The image models that other libraries are measured on too, for images of 3x32x32 pixels and ten classes.
#pragma once

#include <lockstep/lockstep.h>

#include <optional>

namespace image_models {

using namespace lockstep;

inline nn::Sequential lenet() {
  return nn::Sequential(nn::Conv2d(3, 6, 5), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(6, 16, 5), nn::ReLU(),
                        nn::MaxPool2d(2), nn::Flatten(), nn::Linear(400, 120), nn::ReLU(), nn::Linear(120, 84),
                        nn::ReLU(), nn::Linear(84, 10));
}

inline nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return nn::Conv2d(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
}

struct BasicBlock : nn::Module<BasicBlock> {
  nn::Sequential body;
  std::optional<nn::Sequential> shortcut;

  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : body(conv(in, out, 3, stride), nn::BatchNorm2d(out), nn::ReLU(), conv(out, out, 3, 1), nn::BatchNorm2d(out)) {
    if (stride != 1 || in != out) shortcut.emplace(conv(in, out, 1, stride), nn::BatchNorm2d(out));
  }
  auto members() { return nn::members("body", body, "shortcut", shortcut); }
  Tensor forward(const Tensor& x) { return relu(body(x) + (shortcut ? (*shortcut)(x) : x)); }
};

/// With the 3x3 stem for small images.
inline nn::Sequential resnet18() {
  return nn::Sequential(conv(3, 64, 3, 1), nn::BatchNorm2d(64), nn::ReLU(), BasicBlock(64, 64, 1),
                        BasicBlock(64, 64, 1), BasicBlock(64, 128, 2), BasicBlock(128, 128, 1), BasicBlock(128, 256, 2),
                        BasicBlock(256, 256, 1), BasicBlock(256, 512, 2), BasicBlock(512, 512, 1),
                        nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(512, 10));
}

}  // namespace image_models
