// Waits inside of waits: backward in a replica, passes in hooks. Nothing hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/parallel/replica_group.h>
#include <lockstep/parallel/sync_batch_norm.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/must_end.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::must_end;
using testing::values;

struct Plain : nn::Module<Plain> {
  nn::Linear fc{2, 2};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }
};

struct Normed : nn::Module<Normed> {
  nn::Linear fc{2, 2};
  nn::SyncBatchNorm norm{2};
  auto members() { return nn::members("fc", fc, "norm", norm); }
  Tensor forward(const Tensor& x) { return norm(fc(x)); }
};

TEST(NestedWaits, ABackwardReachesTheDeviceOfAReplicaThatWaits) {
  const TestDevices devices(2);
  must_end({[] {
    run_replicas(try_all_gpus(), [](std::size_t i) {
      if (i == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other one waits
        const Tensor x = full({4}, 2., {.device = "cuda:0", .requires_grad = true});
        sum((x * x).to("cuda:1") * 2).to("cuda:0").backward();
        EXPECT_EQ(values(x.grad()), std::vector<double>(4, 8));
      }
      EXPECT_EQ(sum_over_replicas(std::int64_t(1)), 2);
    });
  }});
}

// Computes forces from an energy, each with statistics of the whole batch.
struct Forces : nn::Module<Forces> {
  nn::Linear fc{2, 2};
  nn::SyncBatchNorm norm{2};
  auto members() { return nn::members("fc", fc, "norm", norm); }
  Tensor forward(const Tensor& positions) {
    const Tensor x = positions.detach().requires_grad_();
    const std::vector<Tensor> energy = {sum(norm(fc(x)) * x)}, inputs = {x};
    return norm(fc(gradients(energy, inputs, {}, {.create_graph = true})[0]));
  }
};

TEST(NestedWaits, GradientsInsideOfReplicasThatMeet) {
  const TestDevices devices(3);
  must_end({[] {
    DataParallel model{Forces()};
    for (int i = 0; i < 20; ++i) values(model(randn({9, 2}, {.device = "cuda:0"})));
  }});
}

// Calls a function with the gradient of its output.
struct Hooked : nn::Module<Hooked> {
  nn::Linear fc{2, 2};
  const std::function<void(const Tensor&)>* hook = nullptr;
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) {
    const Tensor y = fc(x);
    register_hook(y, [call = hook](const Tensor& gradient) {
      (*call)(gradient);
      return Tensor();
    });
    return y;
  }
};

TEST(NestedWaits, PassesInTheHooksOfSeveralReplicas) {
  const TestDevices devices(3);
  must_end({[] {
    std::vector<DataParallel<Normed>> others;
    for (int i = 0; i < 3; ++i) others.emplace_back(Normed());
    const std::function<void(const Tensor&)> pass = [&](const Tensor& gradient) {
      const NoGrad guard;
      others[std::size_t(gradient.device().index())](randn({6, 2}, {.device = "cuda:0"}));
    };
    Hooked module;
    module.hook = &pass;
    DataParallel model(std::move(module));
    for (int i = 0; i < 50; ++i) sum(model(ones({6, 2}, {.device = "cuda:0"}))).backward();
  }});
}

TEST(NestedWaits, AMeetingInAHookOnADevicesThread) {
  const TestDevices devices(2);
  must_end({[] {
    DataParallel other{Normed()};
    int ran = 0;
    const Tensor x = ones({4}, {.device = "cuda:1", .requires_grad = true}), y = x * x;
    register_hook(y, [&](const Tensor&) {
      const NoGrad guard;
      other(randn({4, 2}, {.device = "cuda:0"}));
      ++ran;
      return Tensor();
    });
    sum(y.to("cuda:0")).backward();
    EXPECT_EQ(ran, 1);
  }});
}

// Each hook's thread runs the first replica of its own pass, and has to run a replica of the other pass too.
TEST(NestedWaits, PassesInHooksOverTheDeviceOfTheOther) {
  const TestDevices devices(4);
  const auto pass = [](const std::vector<Device>& over) {
    run_replicas(over, [](std::size_t i) {
      if (i == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that both are at work
      for (int meeting = 0; meeting < 2; ++meeting) EXPECT_EQ(sum_over_replicas(std::int64_t(1)), 2);
    });
    return Tensor();
  };
  must_end({[&] {
    const Tensor x = ones({4}, {.device = "cuda:0", .requires_grad = true});
    const Tensor a = x.to("cuda:1") * 2, b = x.to("cuda:3") * 2;
    std::latch both(2);
    register_hook(a, [&](const Tensor&) {
      both.arrive_and_wait();
      return pass({"cuda:0", "cuda:3"});
    });
    register_hook(b, [&](const Tensor&) {
      both.arrive_and_wait();
      return pass({"cuda:2", "cuda:1"});
    });
    (sum(a).to("cuda:0") + sum(b).to("cuda:0")).backward();
    EXPECT_EQ(values(x.grad()), std::vector<double>(4, 4));
  }});
}

// A waiting replica's thread may run another backward, which is not part of that replica.
TEST(NestedWaits, WhatRunsMeanwhileIsNotOfTheReplica) {
  const TestDevices devices(2);
  must_end({[] {
    std::int64_t met = 0;
    bool inside = true;
    int stream = -1;
    float drawn = 0, drawn_alone = 0;
    const Stream other = Stream::from_pool("cuda:0");
    const auto draw_in_replica = [&](float& into, bool with_hook) {
      manual_seed(5);
      run_replicas(try_all_gpus(), [&](std::size_t i) {
        const StreamGuard guard(i == 1 ? other : Stream::default_stream("cuda:0"));
        if (i == 0 && with_hook) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other one waits
          const Tensor x = full({4}, 2., {.device = "cuda:0", .requires_grad = true}), y = x.to("cuda:1") * 2;
          register_hook(y, [&](const Tensor&) {
            rand({1});
            stream = current_stream("cuda:0").id();
            return Tensor();
          });
          sum(y).to("cuda:0").backward();
        }
        sum_over_replicas(std::int64_t(1));
        if (i == 1) into = rand({}).item<float>();
      });
    };
    draw_in_replica(drawn_alone, false);
    draw_in_replica(drawn, true);
    EXPECT_EQ(drawn, drawn_alone);
    EXPECT_EQ(stream, 0);
    run_replicas(try_all_gpus(), [&](std::size_t i) {
      if (i == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other one waits
        const Tensor x = full({4}, 2., {.device = "cuda:0", .requires_grad = true}), y = x.to("cuda:1") * 2;
        register_hook(y, [&](const Tensor&) {
          inside = inside_replica();
          met = sum_over_replicas(std::int64_t(1));
          return Tensor();
        });
        sum(y).to("cuda:0").backward();
      }
      EXPECT_EQ(sum_over_replicas(std::int64_t(10)), 20);
    });
    EXPECT_FALSE(inside);
    EXPECT_EQ(met, 1);
  }});
}

TEST(NestedWaits, SeveralReplicasInsideOfOneAreRefused) {
  const TestDevices devices(2);
  must_end({[] {
    const std::vector<Device> all = try_all_gpus();
    const auto nothing = [](std::size_t) {};
    const std::span<const Device> first = std::span(all).first(1);
    run_replicas(all, [&](std::size_t) {
      EXPECT_THROW(run_replicas(all, nothing), InvalidArgument);
      EXPECT_NO_THROW(run_replicas(first, nothing));
      EXPECT_THROW(run_replicas(first, [&](std::size_t) { run_replicas(all, nothing); }), InvalidArgument);
    });
    EXPECT_NO_THROW(run_replicas(first, [&](std::size_t) { run_replicas(all, nothing); }));
  }});
}

}  // namespace
}  // namespace lockstep
