// The job that the tests of data parallelism run: the model and data of examples/random_dataset.cpp.
#pragma once

#include <string>
#include <vector>

#include <lockstep/core/print.h>
#include <lockstep/data/loader.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

namespace lockstep::testing {

class RandomDataset {
 public:
  RandomDataset(std::int64_t features, std::int64_t length) : data_(randn({length, features})) {}
  Tensor get(std::int64_t index) const { return data_[index]; }
  std::int64_t size() const { return data_.size(0); }

 private:
  Tensor data_;
};

struct Model : nn::Module<Model> {
  nn::Linear fc;
  Model(std::int64_t input_size, std::int64_t output_size) : fc(input_size, output_size) {}
  auto members() { return nn::members("fc", fc); }

  Tensor forward(const Tensor& input) {
    Tensor output = fc(input);
    print("\tIn Model: input size {} output size {}\n", input.sizes(), output.sizes());
    return output;
  }
};

struct Mlp : nn::Module<Mlp> {
  nn::Sequential body;
  Mlp() : body(nn::Linear(5, 8), nn::ReLU(), nn::Linear(8, 2)) {}
  auto members() { return nn::members("body", body); }
  Tensor forward(const Tensor& input) { return body(input); }
};

/// The values of a tensor on any device.
inline std::vector<float> floats(const Tensor& tensor) { return tensor.detach().to_vector<float>(); }

/// Bytes in use on each of the first `count` GPUs.
inline std::vector<std::size_t> memory_in_use(int count) {
  std::vector<std::size_t> in_use;
  for (int d = 0; d < count; ++d) in_use.push_back(memory_stats(Device::cuda(d)).in_use);
  return in_use;
}

/// Waits for each of the first `count` GPUs. A lost device fails more than one operation; each failure is thrown once.
template <class E>
void drain(int count) {
  for (int d = 0; d < count; ++d) try {
      synchronize(Device::cuda(d));
    } catch (const E&) {
    }
}

/// The text that `job` prints.
template <class Job>
std::string printed(Job&& job) {
  std::string text;
  const CapturePrint capture(text);
  job();
  return text;
}

}  // namespace lockstep::testing
