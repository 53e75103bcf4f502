// A model, its training and comparisons, for tests of sharded state and gradients.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include <lockstep/optim/optimizer.h>

#include "parallel/mlp_job.h"
#include "support/replicas.h"

namespace lockstep::sharded {

// Parameters of one element and of sizes that no number of devices divides: some are cut between devices, some lie in
// one device's shard; a branch that only some batches take, and one that none takes.
struct Net : nn::Module<Net> {
  nn::Linear first, last, sometimes, never;
  explicit Net(DType dtype = kFloat32)
      : first(5, 89, {.tensor = {.dtype = dtype}}),
        last(89, 1, {.tensor = {.dtype = dtype}}),
        sometimes(89, 89, {.tensor = {.dtype = dtype}}),
        never(3, 3, {.tensor = {.dtype = dtype}}) {}
  auto members() { return nn::members("first", first, "last", last, "sometimes", sometimes, "never", never); }
  Tensor forward(const Tensor& x, bool branch) {
    Tensor h = relu(first(x));
    if (branch) h = h + sometimes(h);
    return last(h);
  }
};

inline DataParallelOptions options(Shard shard, std::vector<int> device_ids = {}) {
  return {.device_ids = std::move(device_ids), .buckets = {.first_bytes = 64, .bytes = 3000}, .shard = shard};
}
inline DataParallelOptions options(bool shard, std::vector<int> device_ids = {}) {
  return options(shard ? Shard::optimizer_state : Shard::none, std::move(device_ids));
}

inline std::vector<double> values(const Tensor& tensor) { return tensor.detach().to(kFloat64).to_vector<double>(); }

inline std::vector<std::vector<double>> values(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> all;
  for (const Tensor& tensor : tensors) all.push_back(values(tensor));
  return all;
}

inline std::vector<std::vector<double>> values(const StateDict& state) {
  std::vector<std::vector<double>> all;
  for (const auto& [key, value] : state) all.push_back(values(value));
  return all;
}

inline std::vector<std::vector<double>> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  for (const Tensor& parameter : parameters)
    if (const Tensor gradient = parameter.grad(); gradient.defined()) all.push_back(gradient);
  return values(all);
}

inline void expect_replicas_identical(const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters)
    for (const Tensor& replica : testing::other_replicas(parameter)) EXPECT_EQ(values(replica), values(parameter));
}

inline const std::vector<Tensor>& batches() {
  static const std::vector<Tensor> all = [] {
    manual_seed(11);
    std::vector<Tensor> made;
    for (const std::int64_t rows : {10, 4, 1, 7}) made.push_back(randn({rows, 5}));
    return made;
  }();
  return all;
}

inline Tensor loss_of(DataParallel<Net>& model, int step) {
  const Tensor& batch = batches()[std::size_t(step) % batches().size()];
  const Tensor output = model(batch.to(model.device(), model.module().first.weight.dtype()), step % 3 == 1);
  return sum(output * output) * 0.01;
}

inline void train(DataParallel<Net>& model, optim::Optimizer& optimizer, int from, int to) {
  for (int step = from; step < to; ++step) {
    optimizer.zero_grad();
    loss_of(model, step).backward();
    optimizer.step();
  }
}

inline StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [key, value] : state) copy.add(key, value.clone());
  return copy;
}

/// Runs a test on 2, 3 and 5 devices.
class Devices : public ::testing::TestWithParam<int> {
 protected:
  SimulatedDevices devices_{{.count = GetParam(), .max_delay_us = 10}};
};

}  // namespace lockstep::sharded
