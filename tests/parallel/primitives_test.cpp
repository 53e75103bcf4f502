// replicate, scatter, parallel_apply and gather, combined by hand or by data_parallel(): results and gradients are
// those of one device.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "parallel/expect_close.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::primitives {
namespace {

using testing::expect_close;
using testing::thrown;
using testing::values;
using Doubles = std::vector<double>;

constexpr TensorOptions kDouble = {.dtype = kFloat64};

// A parameter that is named twice, one that some batches do not use, and a buffer that gets a gradient.
struct Net : nn::Module<Net> {
  nn::Linear first{3, 4, {.tensor = kDouble}}, last{4, 1, {.tensor = kDouble}}, extra{4, 4, {.tensor = kDouble}};
  nn::Buffer scale{full({4}, 2, kDouble)};
  Net() { scale.requires_grad_(); }
  auto members() {
    return nn::members("first", first, "last", last, "extra", extra, "again", last.weight, "scale", scale);
  }
  Tensor forward(const Tensor& x) {
    Tensor hidden = tanh(first(x)) * scale;
    if (x.select(0, 0).select(0, 0).cpu().item<double>() > 0) hidden = extra(hidden);
    return last(hidden);
  }
};

Tensor by_hand(Net& net, const Tensor& input, const std::vector<Device>& devices) {
  auto replicas = replicate(net, devices);
  auto inputs = scatter(input, devices);
  auto outputs = parallel_apply(replicas, inputs);
  return gather(outputs, devices[0]);
}

Tensor by_function(Net& net, const Tensor& input, const std::vector<Device>& devices) {
  DataParallelOptions options;
  for (const Device& device : devices) options.device_ids.push_back(device.index());
  return data_parallel(net, input, options);
}

// Feature 0 alternates in sign: a shard uses `extra` if its first row is positive.
Tensor rows_of(std::int64_t count) {
  Tensor x = randn({count, 3}, kDouble);
  for (std::int64_t i = 0; i < count; ++i) x[i][0].fill_(i % 2 ? -1 : 1);
  return x;
}

class Primitives : public ::testing::TestWithParam<decltype(&by_hand)> {
 protected:
  // Compares the gradients that `job` produces with one module and with its replicas.
  template <class Job>
  static void expect_as_alone(const Job& job) {
    for (const int count : {1, 2, 3, 5})
      for (const std::int64_t rows : {12, 7, 1}) {
        const TestDevices there(count);
        const std::vector<Device> devices = try_all_gpus();
        Net alone, several(alone);
        alone.to("cuda:0");
        several.to("cuda:0");
        const Tensor x = rows_of(rows).cuda();
        // On one device, `extra` is used or not by shards too.
        const auto whole = [&](const Tensor& input) {
          std::vector<Tensor> parts;
          for (const Tensor& part : chunk(input, count)) parts.push_back(alone(part));
          return gather(parts, "cuda:0");
        };
        const std::string what = std::to_string(count) + " devices, " + std::to_string(rows) + " rows";
        job(alone, whole, x);
        job(
            several, [&](const Tensor& input) { return GetParam()(several, input, devices); }, x);
        const auto expected = alone.named_parameters(), got = several.named_parameters();
        for (std::size_t k = 0; k < got.size(); ++k) {
          ASSERT_EQ(got[k].second.grad().defined(), expected[k].second.grad().defined()) << what << got[k].first;
          if (got[k].second.grad().defined())
            expect_close(values(got[k].second.grad()), values(expected[k].second.grad()), 1e-12, what + got[k].first);
        }
        expect_close(values(several.scale.grad()), values(alone.scale.grad()), 1e-12, what + " buffer");
      }
  }
};

TEST_P(Primitives, BringTheGradientsOfTheWholeBatch) {
  expect_as_alone([](Net&, const auto& run, const Tensor& x) { sum(square(run(x))).backward(); });
}

TEST_P(Primitives, AccumulateOverBackwards) {
  expect_as_alone([](Net&, const auto& run, const Tensor& x) {
    sum(square(run(x))).backward();
    const Tensor loss = sum(run(x * 2));
    loss.backward({}, true);
    loss.backward();
  });
}

TEST_P(Primitives, GiveGradientsOfGradients) {
  expect_as_alone([](Net& net, const auto& run, const Tensor& x) {
    const std::vector<Tensor> first =
        gradients({sum(square(run(x)))}, {net.first.weight, net.last.weight, net.scale}, {}, {.create_graph = true});
    (sum(square(first[0])) + sum(square(first[1])) + sum(square(first[2]))).backward();
  });
}

TEST_P(Primitives, TakeDevicesInAnyOrder) {
  const TestDevices there(3);
  Net net;
  net.to("cuda:2");
  const Tensor x = rows_of(7);
  const Tensor y = GetParam()(net, x, {"cuda:2", "cuda:0"});
  EXPECT_EQ(y.device(), Device("cuda:2"));
  sum(y).backward();
  EXPECT_EQ(net.first.weight.grad().device(), Device("cuda:2"));
}

TEST_P(Primitives, RecordNothingUnderNoGrad) {
  const TestDevices there(2);
  Net net;
  net.to("cuda:0");
  const NoGrad guard;
  EXPECT_FALSE(GetParam()(net, rows_of(4), try_all_gpus()).requires_grad());
}

TEST_P(Primitives, LeaveNoMemoryInUse) {
  const TestDevices there(3);
  const std::vector<Device> devices = try_all_gpus();
  Net net;
  net.to("cuda:0");
  const auto in_use = [&] {
    std::vector<std::size_t> bytes;
    for (const Device& device : devices) {
      synchronize(device);
      bytes.push_back(memory_stats(device).in_use);
    }
    return bytes;
  };
  const Tensor x = rows_of(7).cuda();
  sum(GetParam()(net, x, devices)).backward();
  const std::vector<std::size_t> before = in_use();
  sum(GetParam()(net, x, devices)).backward();
  EXPECT_EQ(in_use(), before);
}

INSTANTIATE_TEST_SUITE_P(Put, Primitives, ::testing::Values(&by_hand, &by_function),
                         [](const auto& each) { return each.param == &by_hand ? "TogetherByHand" : "IntoAFunction"; });

TEST(DataParallelFunction, TakesATemporaryModule) {
  const TestDevices there(3);
  Tensor x = ones({7, 3}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor y = data_parallel(Net(), x);
  EXPECT_EQ(y.sizes(), (Shape{7, 1}));
  sum(y).backward();
  EXPECT_EQ(x.grad().sizes(), (Shape{7, 3}));
}

struct Counting : nn::Module<Counting> {
  nn::Buffer calls{zeros({1})};
  auto members() { return nn::members("calls", calls); }
  Tensor forward(const Tensor& x) {
    calls.add_(ones({1}, {.device = x.device()}));
    return x;
  }
  void forward(const Tensor& x, int) { forward(x); }
};

// The first replica is the module itself; changes of the other replicas' buffers are lost.
TEST(Replicate, KeepsWhatTheReplicaOnTheModulesDeviceDoesToBuffers) {
  const TestDevices there(3);
  const std::vector<Device> devices = try_all_gpus();
  Counting module;
  module.to("cuda:1");
  auto replicas = replicate(module, devices);
  parallel_apply(replicas, scatter(zeros({3}), devices));
  parallel_apply(replicas, scatter(zeros({3}), devices));
  EXPECT_EQ(values(module.calls), Doubles{2});
  module.to("cuda:0");
  data_parallel(module, zeros({3}));
  data_parallel(module, std::tuple(zeros({3}), 1));
  EXPECT_EQ(values(module.calls), Doubles{4});
}

TEST(Replicate, LeavesTheModuleWhereItIs) {
  const TestDevices there(2);
  Net net;
  const std::vector<Device> devices = try_all_gpus();
  const Tensor x = rows_of(6);
  sum(gather(parallel_apply(replicate(net, devices), scatter(x, devices)), "cpu")).backward();
  EXPECT_EQ(net.first.weight.device(), Device("cpu"));
  EXPECT_EQ(net.first.weight.grad().device(), Device("cpu"));
}

TEST(ReplicateRefuses, WhatHasNoReplica) {
  const TestDevices there(2);
  const std::vector<Device> far = {"cuda:0", "cuda:2"};
  EXPECT_THROW(replicate(Net(), std::span<const Device>()), InvalidArgument);
  EXPECT_THROW(replicate(Net(), far), InvalidArgument);
  EXPECT_EQ(
      thrown<InvalidArgument>([] { replicate(nn::Sequential(nn::LazyLinear(2)), try_all_gpus()); }),
      "[replicate] expected parameter \"0.weight\" to have a shape, got a lazy one: run one batch through the module "
      "first");
}

TEST(ReplicateRefuses, AReplicaThatMoves) {
  const TestDevices there(2);
  Net net;
  net.to("cuda:0");
  auto replicas = replicate(net, try_all_gpus());
  EXPECT_THROW(replicas[1].to("cuda:0"), AutogradError);
  EXPECT_EQ(replicas[1].first.weight.device(), Device("cuda:1"));
}

struct Taking : nn::Module<Taking> {
  Tensor forward(Tensor x) { return x * 2.; }
  Tensor forward(Tensor x, std::map<std::string, Tensor> more) { return x + more.at("x"); }
};

TEST(ParallelApply, LeavesItsInputsToTheCaller) {
  const TestDevices there(2);
  const std::vector<Device> devices = try_all_gpus();
  auto replicas = replicate(Taking(), devices);
  auto tensors = scatter(arange(4), devices);
  const auto tuples = scatter(std::tuple(arange(4), std::map<std::string, Tensor>{{"x", arange(4)}}), devices);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(values(gather(parallel_apply(replicas, tensors), "cpu")), (Doubles{0, 2, 4, 6}));
    EXPECT_EQ(values(gather(parallel_apply(replicas, tuples), "cpu")), (Doubles{0, 2, 4, 6}));
  }
}

TEST(ParallelApply, RunsWhereReplicasAreOrElseTheirInputs) {
  const TestDevices there(2);
  std::vector<nn::Linear> replicas;
  for (int i = 0; i < 2; ++i) replicas.emplace_back(3, 1);
  replicas[0].to("cuda:1");
  replicas[1].to("cuda:0");
  const std::vector<Device> reversed = {"cuda:1", "cuda:0"};
  const auto inputs = scatter(ones({4, 3}), reversed);
  const auto outputs = parallel_apply(replicas, inputs);
  EXPECT_EQ(outputs[0].device(), Device("cuda:1"));
  std::vector<nn::ReLU> bare(2);
  EXPECT_EQ(parallel_apply(bare, inputs)[1].device(), Device("cuda:0"));
}

TEST(ParallelApplyRefuses, InputsWithoutAReplicaOrADevice) {
  const TestDevices there(2);
  const std::vector<Device> one = {"cuda:0"};
  std::vector<nn::ReLU> replicas(1);
  EXPECT_EQ(thrown<InvalidArgument>([&] { parallel_apply(replicas, scatter(ones({2}), try_all_gpus())); }),
            "[parallel_apply] expected a replica and a device for each of 2 inputs, got 1 and 2");
  replicas.resize(2);
  EXPECT_EQ(thrown<InvalidArgument>([&] { parallel_apply(replicas, scatter(ones({2}), try_all_gpus()), one); }),
            "[parallel_apply] expected a replica and a device for each of 2 inputs, got 2 and 1");
  EXPECT_THROW(parallel_apply(replicas, std::vector<Tensor>()), InvalidArgument);
  EXPECT_EQ(thrown<InvalidArgument>([&] { parallel_apply(replicas, std::vector<Tensor>(1)); }),
            "[parallel_apply] expected replica 0 or its input to have a tensor, got neither: give the devices");
}

}  // namespace
}  // namespace lockstep::primitives
