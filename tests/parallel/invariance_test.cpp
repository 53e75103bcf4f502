// The trained model does not depend on the number of devices that trained it.
#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/join.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/sync_batch_norm.h>

#include "parallel/expect_close.h"
#include "parallel/mlp_job.h"
#include "support/repetitions.h"
#include "support/replicas.h"
#include "support/test_devices.h"

namespace lockstep::invariance {
namespace {

// Dropout, batch statistics, weights used twice, a branch that only some batches take, and one that none takes. Every
// parameter affects the loss: one that a normalization cancels would be trained by rounding errors.
struct Net : nn::Module<Net> {
  nn::Linear first, shared, last, sometimes, never;
  nn::SyncBatchNorm norm, per_feature;
  nn::Dropout drop;

  explicit Net(DType dtype)
      : first(5, 8, {.tensor = {.dtype = dtype}}),
        shared(8, 8, {.tensor = {.dtype = dtype}}),
        last(8, 3, {.tensor = {.dtype = dtype}}),
        sometimes(8, 8, {.tensor = {.dtype = dtype}}),
        never(8, 8, {.tensor = {.dtype = dtype}}),
        norm(2, {.tensor = {.dtype = dtype}}),
        per_feature(8, {.tensor = {.dtype = dtype}}),
        drop(0.3) {
    normal_(*norm.bias, 0, 0.5);
    normal_(*per_feature.bias, 0, 0.5);
  }
  auto members() {
    return nn::members("first", first, "shared", shared, "last", last, "sometimes", sometimes, "never", never, "norm",
                       norm, "per_feature", per_feature, "drop", drop);
  }
  Tensor forward(const Tensor& x, bool branch, bool whole_batch_has_rows) {
    Tensor h = drop(relu(first(x)));
    h = relu(norm(h.reshape({x.size(0), 2, 4})).reshape({x.size(0), 8}));
    if (whole_batch_has_rows) h = per_feature(h);
    h = drop(relu(shared(h)).reshape({2 * x.size(0), 4})).reshape({x.size(0), 8});  // several rows for each of x
    h = drop(relu(shared(h)));
    if (branch) h = h + sometimes(h);
    return last(h);
  }
};

std::vector<double> values(const Tensor& tensor) { return tensor.detach().to(kFloat64).to_vector<double>(); }

// The losses, the gradient norms before clipping (after it they carry no information), then all parameters and buffers.
using Result = std::vector<std::vector<double>>;

constexpr double kMaxNorm = 0.02;

struct Case {
  int devices;
  std::int64_t rows;
};

// Each step accumulates two batches and clips the gradients.
template <class Model, class AfterStep>
Result train(Model& model, Device device, DType dtype, std::int64_t rows, const AfterStep& after_step) {
  manual_seed(11);
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
  Result result(2);
  for (int step = 0; step < testing::repetitions(50); ++step) {
    optimizer.zero_grad();
    for (int part = 0; part < 2; ++part) {
      const Tensor batch = randn({rows, 5}, {.dtype = dtype}).to(device);
      const Tensor output = model(batch, (step + part) % 3 == 0, rows > 1);
      const Tensor loss = sum(output * output);
      result[0].push_back(loss.item<double>());
      if constexpr (requires { model.no_sync(); }) {
        std::optional<typename Model::NoSync> guard;
        if (part == 0) guard.emplace(model);
        loss.backward();
      } else {
        loss.backward();
      }
    }
    const Tensor norm = optim::clip_grad_norm_(model.parameters(), kMaxNorm);
    result[1].push_back(norm.item<double>());
    optimizer.step();
    after_step();
  }
  for (const auto& [name, tensor] : model.state_dict()) result.push_back(values(tensor));
  return result;
}

Result train_on(int devices, std::int64_t rows, const Net& net, DType dtype) {
  DataParallel model(copy(net), {.buckets = {.first_bytes = 256, .bytes = 512}});
  EXPECT_EQ(model.devices().size(), std::size_t(devices));
  return train(model, model.device(), dtype, rows, [&] {
    const NoGrad no_grad;
    std::vector<std::vector<Tensor>> replicas(model.devices().size());  // all parameters: one copy to the host
    for (const Tensor& parameter : model.parameters()) {
      replicas[0].push_back(parameter.reshape({-1}));
      const std::vector<Tensor> others = testing::other_replicas(parameter);
      for (std::size_t i = 0; i < others.size(); ++i) replicas[i + 1].push_back(others[i].reshape({-1}));
    }
    const std::vector<double> expected = values(cat(replicas[0]));
    for (std::size_t i = 1; i < replicas.size(); ++i) ASSERT_EQ(values(cat(replicas[i])), expected) << "replica " << i;
  });
}

class Invariance : public ::testing::TestWithParam<Case> {};

TEST_P(Invariance, NDevicesTrainTheModelThatOneDeviceTrains) {
  const auto [count, rows] = GetParam();
  for (const DType dtype : {kFloat32, kFloat64}) {
    const TestDevices devices(count);
    manual_seed(3);
    const Net net(dtype);
    Net alone = net;
    const Result expected = train(alone, "cpu", dtype, rows, [] {});
    const Result got = train_on(count, rows, net, dtype);
    const auto clipped = std::ranges::count_if(expected[1], [](double norm) { return norm > kMaxNorm; });
    EXPECT_GT(double(clipped), 0.9 * double(expected[1].size())) << "steps whose gradients were clipped";
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      testing::expect_close(got[i], expected[i], dtype == kFloat32 ? 1e-4 : 1e-11,
                            std::string(name(dtype)) + ", result " + std::to_string(i));
    if (dtype == kFloat64) continue;
    EXPECT_EQ(train_on(count, rows, net, dtype), got) << "a second run";
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int devices : {1, 2, 3, 4, 7, 16})
    for (const std::int64_t rows : {30, 10, 7, 1}) cases.push_back({devices, rows});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, Invariance, ::testing::ValuesIn(all_cases()), [](const auto& test) {
  return std::to_string(test.param.devices) + "Devices" + std::to_string(test.param.rows) + "Rows";
});

}  // namespace
}  // namespace lockstep::invariance
