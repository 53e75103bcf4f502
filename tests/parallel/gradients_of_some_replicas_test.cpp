// Replicas of one pass that use different parameters: one that did not use a parameter adds zero to its gradient.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lockstep/nn/layers.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/random.h>

#include "parallel/expect_close.h"
#include "support/replicas.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep::gradients_of_some_replicas {
namespace {

using testing::expect_close;
using testing::values;

// The replicas that take the branch.
using Users = std::set<int>;

struct Net : nn::Module<Net> {
  nn::Linear first{5, 61, {.tensor = {.dtype = kFloat64}}}, sometimes{61, 61, {.tensor = {.dtype = kFloat64}}},
      last{61, 1, {.tensor = {.dtype = kFloat64}}};
  auto members() { return nn::members("first", first, "sometimes", sometimes, "last", last); }
  Tensor run(const Tensor& x, bool branch) {
    Tensor h = relu(first(x));
    if (branch) h = h + sometimes(h);
    return last(h);
  }
  Tensor forward(const Tensor& x, const Users& users) { return run(x, users.contains(x.device().index())); }
};

Tensor loss_of(const Tensor& output) { return sum(output * output) * 0.01; }

struct Case {
  int devices;
  bool shard;
  std::size_t bucket_bytes;
};

class GradientsOfSomeReplicas : public ::testing::TestWithParam<Case> {
 protected:
  // Runs backward for one batch on all devices, and for its shards one after the other on one device.
  void backward(const Users& users) {
    loss_of(model_(input_.to(model_.device()), users)).backward();
    const std::vector<std::int64_t> rows = shard_sizes(input_.size(0), model_.devices().size(), {});
    std::int64_t from = 0;
    for (std::size_t i = 0; i < rows.size(); from += rows[i++])
      loss_of(alone_.run(input_.narrow(0, from, rows[i]), users.contains(int(i)))).backward();
  }

  void zero_grad() {
    model_.zero_grad();
    alone_.zero_grad();
  }

  void expect_same_gradients() {
    const auto expected = alone_.named_parameters(), got = model_.named_parameters();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, parameter] = expected[i];
      const Tensor gradient = got[i].second.grad();
      ASSERT_EQ(gradient.defined(), parameter.grad().defined()) << name;
      if (!gradient.defined()) continue;
      expect_close(values(gradient), values(parameter.grad()), 1e-12, name);
      for (const Tensor& replica : testing::other_replicas(got[i].second))
        EXPECT_EQ(values(replica.grad()), values(gradient)) << name << " on " << replica.device();
    }
  }

  void expect_same_parameters() {
    const auto expected = alone_.named_parameters(), got = model_.named_parameters();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, parameter] = expected[i];
      expect_close(values(got[i].second), values(parameter), 1e-12, name);
      for (const Tensor& replica : testing::other_replicas(got[i].second))
        EXPECT_EQ(values(replica), values(got[i].second)) << name << " on " << replica.device();
    }
  }

  const TestDevices devices_{GetParam().devices};
  const Tensor input_ = randn({11, 5}, {.dtype = kFloat64});
  Net alone_;
  DataParallel<Net> model_{copy(alone_),
                           {.buckets = {.first_bytes = GetParam().bucket_bytes, .bytes = GetParam().bucket_bytes},
                            .shard = GetParam().shard ? Shard::optimizer_state : Shard::none}};
};

// Buckets of one parameter, of several, and one for all. On five devices, four replicas run.
INSTANTIATE_TEST_SUITE_P(, GradientsOfSomeReplicas,
                         ::testing::Values(Case{2, false, 600}, Case{3, false, 1}, Case{3, false, 600},
                                           Case{3, false, 1 << 20}, Case{5, false, 1 << 20}, Case{2, true, 600},
                                           Case{3, true, 1}, Case{3, true, 600}, Case{3, true, 1 << 20},
                                           Case{5, true, 1 << 20}),
                         [](const auto& test) {
                           return std::to_string(test.param.devices) + (test.param.shard ? "Sharded" : "Whole") +
                                  std::to_string(test.param.bucket_bytes);
                         });

// The buckets are rebuilt after the first backward, in which replica 0 does not take the branch.
std::vector<Users> users_by_step() { return {Users{1}, Users{0, 2}, Users{1}, Users{}, Users{0, 1, 2, 3}, Users{3}}; }

TEST_P(GradientsOfSomeReplicas, AreTheSumOverTheShards) {
  for (const Users& users : users_by_step()) {
    zero_grad();
    backward(users);
    expect_same_gradients();
  }
}

TEST_P(GradientsOfSomeReplicas, TrainTheModelThatOneDeviceTrains) {
  optim::SGD one(alone_.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::SGD many(model_.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (const Users& users : users_by_step()) {
    zero_grad();
    backward(users);
    one.step();
    many.step();
    expect_same_parameters();
  }
}

TEST_P(GradientsOfSomeReplicas, AddUpOverBackwardsOfOtherReplicas) {
  for (int round = 0; round < 2; ++round) {
    zero_grad();
    backward({1});
    backward({0, 2});
    expect_same_gradients();
    backward({1});
    expect_same_gradients();
  }
}

TEST_P(GradientsOfSomeReplicas, AreSummedByALaterBackwardOfOtherReplicas) {
  for (const Users& later : users_by_step()) {
    zero_grad();
    {
      const auto guard = model_.no_sync();
      backward({1});
    }
    backward(later);
    expect_same_gradients();
  }
}

}  // namespace
}  // namespace lockstep::gradients_of_some_replicas
