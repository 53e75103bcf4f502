// ResNet-18 (He et al. 2015) with the 3x3 stem for small images. State-dict names are torchvision's.
#pragma once

#include <lockstep/lockstep.h>

#include <optional>

namespace resnet {

// `Norm` is nn::BatchNorm2d, or SyncBatchNorm for statistics over all devices.
template <class Norm>
struct BasicBlock : lockstep::nn::Module<BasicBlock<Norm>> {
  lockstep::nn::Conv2d conv1;
  Norm bn1;
  lockstep::nn::Conv2d conv2;
  Norm bn2;
  std::optional<lockstep::nn::Sequential> downsample;

  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
        bn1(out),
        conv2(out, out, 3, {.padding = 1, .bias = false}),
        bn2(out) {
    if (stride != 1 || in != out)
      downsample.emplace(lockstep::nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}), Norm(out));
  }
  auto members() {
    return lockstep::nn::members("conv1", conv1, "bn1", bn1, "conv2", conv2, "bn2", bn2, "downsample", downsample);
  }
  lockstep::Tensor forward(const lockstep::Tensor& x) {
    const lockstep::Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (downsample ? (*downsample)(x) : x));
  }
};

template <class Norm>
lockstep::nn::Sequential stage(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return lockstep::nn::Sequential{BasicBlock<Norm>(in, out, stride), BasicBlock<Norm>(out, out, 1)};
}

}  // namespace resnet

// Images: [batch, 3, height, width]. `width` is the number of channels of the first stage.
template <class Norm = lockstep::nn::BatchNorm2d>
struct ResNet18 : lockstep::nn::Module<ResNet18<Norm>> {
  lockstep::nn::Conv2d conv1;
  Norm bn1;
  lockstep::nn::Sequential layer1, layer2, layer3, layer4;
  lockstep::nn::Linear fc;

  explicit ResNet18(std::int64_t classes = 10, std::int64_t width = 64)
      : conv1(3, width, 3, {.padding = 1, .bias = false}),
        bn1(width),
        layer1(resnet::stage<Norm>(width, width, 1)),
        layer2(resnet::stage<Norm>(width, 2 * width, 2)),
        layer3(resnet::stage<Norm>(2 * width, 4 * width, 2)),
        layer4(resnet::stage<Norm>(4 * width, 8 * width, 2)),
        fc(8 * width, classes) {}
  auto members() {
    return lockstep::nn::members("conv1", conv1, "bn1", bn1, "layer1", layer1, "layer2", layer2, "layer3", layer3,
                                 "layer4", layer4, "fc", fc);
  }
  lockstep::Tensor forward(const lockstep::Tensor& images) {
    const lockstep::Tensor x = layer4(layer3(layer2(layer1(relu(bn1(conv1(images)))))));
    return fc(adaptive_avg_pool2d(x, 1).flatten(1));
  }
};
