// A model whose backward a test can hold, to check what happens meanwhile.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/layers.h>
#include <lockstep/runtime/trace.h>

namespace lockstep::testing {

/// Eight layers. Backward calls `before_last` with each device when only the first layer's gradient is left to compute
/// there.
struct BlockingModel : nn::Module<BlockingModel> {
  static constexpr std::size_t kBiasBytes = 32 * sizeof(float), kLayerBytes = 32 * kBiasBytes + kBiasBytes;
  static inline std::function<void(Device)> before_last;
  std::vector<nn::Linear> layers;

  BlockingModel() : layers(8, nn::Linear(32, 32)) {}
  auto members() { return nn::members("layers", layers); }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) {
      x = layer(x);
      if (&layer == &layers[0] && before_last)
        register_hook(x, [](const Tensor& gradient) {
          before_last(gradient.device());
          return Tensor();
        });
    }
    return x;
  }
};

/// All-reduces that a device took part in.
inline int count_all_reduces(const Trace& trace, Device device,
                             double before_us = std::numeric_limits<double>::infinity()) {
  int count = 0;
  for (const TraceEvent& event : trace.events())
    count += event.name == "all_reduce" && event.device == device && event.start_us < before_us;
  return count;
}

}  // namespace lockstep::testing
