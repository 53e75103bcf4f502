// no_sync(): it saves collectives, and loses no gradients.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <new>
#include <optional>

#include "parallel/expect_close.h"
#include "parallel/sharded.h"

namespace lockstep::sharded {
namespace {

// The test parameter: whether optimizer state is sharded.
class NoSync : public ::testing::TestWithParam<bool> {
 protected:
  std::uint64_t collectives() const { return devices_.counts(0).collectives; }

  std::uint64_t collectives_of_a_backward(int step) {
    const std::uint64_t before = collectives();
    loss_of(model_, step).backward();
    return collectives() - before;
  }

  void expect_no_collectives_under_the_guard() {
    const auto guard = model_.no_sync();
    EXPECT_EQ(collectives_of_a_backward(1), 0u);
    EXPECT_EQ(collectives_of_a_backward(3), 0u);
  }

  // Expects the sum of the gradients of these steps, on every device.
  void expect_sum_of(const std::vector<int>& steps) {
    Net alone = net_;
    for (const int step : steps) {
      const Tensor output = alone(batches()[std::size_t(step)].to(kFloat64), step % 3 == 1);
      (sum(output * output) * 0.01).backward();
    }
    const auto expected = alone.named_parameters(), got = model_.named_parameters();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, parameter] = expected[i];
      const Tensor gradient = got[i].second.grad();
      ASSERT_EQ(gradient.defined(), parameter.grad().defined()) << name;
      if (!gradient.defined()) continue;
      testing::expect_close(values(gradient), values(parameter.grad()), 1e-12, name);
      for (const Tensor& replica : testing::other_replicas(got[i].second))
        EXPECT_EQ(values(replica.grad()), values(gradient)) << name;
    }
  }

  SimulatedDevices devices_{{.count = 3}};
  const Net net_{kFloat64};
  DataParallel<Net> model_{copy(net_), options(GetParam())};
};

TEST_P(NoSync, LeavesOneSumToTheNextBackward) {
  collectives_of_a_backward(1);
  model_.zero_grad();
  const std::uint64_t usual = collectives_of_a_backward(1);  // the buckets are not rebuilt any more
  ASSERT_GT(usual, 0u);
  model_.zero_grad();
  expect_no_collectives_under_the_guard();
  EXPECT_EQ(collectives_of_a_backward(0), usual);
  expect_sum_of({1, 3, 0});
}

TEST_P(NoSync, LeavesTheSumToWhoeverAsksFirst) {
  expect_no_collectives_under_the_guard();
  const std::uint64_t before = collectives();
  model_.module().first.weight.grad();
  EXPECT_GT(collectives(), before);
  expect_sum_of({1, 3});
}

TEST_P(NoSync, OutlivesItsModel) {
  alignas(DataParallel<Net>) std::array<std::byte, sizeof(DataParallel<Net>)> memory;
  auto* const model = new (memory.data()) DataParallel<Net>(copy(net_), options(GetParam()));
  const auto guard = model->no_sync();
  model->~DataParallel();
  memory.fill(std::byte(0xff));
}

TEST_P(NoSync, GoesWithAModelThatIsMoved) {
  std::optional<DataParallel<Net>> taken;
  const auto collectives_of_the_other = [&] {
    const std::uint64_t before = collectives();
    loss_of(*taken, 1).backward();
    return collectives() - before;
  };
  {
    const auto guard = model_.no_sync();
    taken.emplace(std::move(model_));
    EXPECT_EQ(collectives_of_the_other(), 0u);
  }
  EXPECT_GT(collectives_of_the_other(), 0u);
}

TEST_P(NoSync, HoldsForReplicasThatAreMadeAnew) {
  const auto guard = model_.no_sync();
  nn::Parameter& weight = model_.module().first.weight;
  weight = nn::Parameter(weight.detach().clone());
  EXPECT_EQ(collectives_of_a_backward(1), 0u);
}

INSTANTIATE_TEST_SUITE_P(Gradients, NoSync, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Sharded" : "Whole"; });

}  // namespace
}  // namespace lockstep::sharded
