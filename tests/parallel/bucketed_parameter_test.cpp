// The states of the gradient of a parameter on several devices, and the transitions between them.
#include "parallel/bucketed_parameter.h"

#include <gtest/gtest.h>

#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>

#include "parallel/sharded.h"
#include "support/test_devices.h"

namespace lockstep::sharded {
namespace {

using State = GradientState;

const BucketedParameter& bucketed(const Tensor& parameter) {
  return static_cast<const BucketedParameter&>(*autograd::replica_of(parameter)->parameter);
}

TEST(GradientStates, FollowEachOtherAsTheTableSays) {
  for (const State state : {State::none, State::partial, State::summed, State::sharded, State::primary}) {
    EXPECT_TRUE(is_legal(state, State::none));
    EXPECT_TRUE(is_legal(state, State::partial));
    EXPECT_TRUE(is_legal(state, State::primary));
    EXPECT_TRUE(is_legal(state, State::stale));
    EXPECT_FALSE(is_legal(State::stale, state));
  }
  EXPECT_FALSE(is_legal(State::none, State::summed));  // a sum without a backward or a user
  EXPECT_FALSE(is_legal(State::none, State::sharded));
  EXPECT_FALSE(is_legal(State::primary, State::sharded));  // the other replicas have nothing yet
}

// The test parameter: whether optimizer state is sharded.
class BucketedParameters : public ::testing::TestWithParam<bool> {
 protected:
  State state() const { return bucketed(weight_).state(); }
  State summed() const { return GetParam() ? State::sharded : State::summed; }
  void backward() { sum(model_(ones({6, 5}, {.device = "cuda:0"}))).backward(); }

  const TestDevices devices_{3};
  DataParallel<nn::Linear> model_{nn::Linear(5, 77), {.shard = GetParam() ? Shard::optimizer_state : Shard::none}};
  Tensor weight_ = model_.module().weight;
};

TEST_P(BucketedParameters, AreSummedByABackwardAndHaveNothingAfterZeroGrad) {
  EXPECT_EQ(state(), State::none);
  backward();
  EXPECT_EQ(state(), summed());
  backward();
  EXPECT_EQ(state(), summed());
  model_.zero_grad();
  EXPECT_EQ(state(), State::none);
}

TEST_P(BucketedParameters, AreWholeForWhoeverLooks) {
  backward();
  EXPECT_EQ(values(weight_.grad()), std::vector<double>(385, 6));
  EXPECT_EQ(state(), State::summed);
}

TEST_P(BucketedParameters, StayPartialUnderNoSync) {
  {
    const auto guard = model_.no_sync();
    backward();
    EXPECT_EQ(state(), State::partial);
  }
  weight_.grad();
  EXPECT_EQ(state(), State::summed);
}

TEST_P(BucketedParameters, AreThePrimarysAloneWhenSetUntilTheyAreUsed) {
  backward();
  weight_.set_grad(ones({77, 5}, {.device = "cuda:0"}));
  EXPECT_EQ(state(), State::primary);
  optim::SGD optimizer(model_.parameters(), {.lr = 1});
  const std::vector<double> before = values(weight_);
  optimizer.step();
  EXPECT_EQ(state(), State::summed);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(float(values(weight_)[i]), float(before[i]) - 1);
  for (const Tensor& replica : testing::other_replicas(weight_)) EXPECT_EQ(values(replica), values(weight_));
}

TEST_P(BucketedParameters, AreClippedInTheirShards) {
  backward();
  optim::clip_grad_norm_(model_.parameters(), 1);
  EXPECT_EQ(state(), summed());
}

TEST_P(BucketedParameters, SetInAnotherReplicaCountAsThatOnesPart) {
  backward();
  testing::other_replicas(weight_)[0].set_grad(ones({77, 5}, {.device = "cuda:1"}));
  EXPECT_EQ(state(), State::partial);
  EXPECT_EQ(values(weight_.grad()), std::vector<double>(385, 1));
}

TEST_P(BucketedParameters, AreStaleOnceTheModelIsGone) {
  std::optional<DataParallel<nn::Linear>> model(std::move(model_));
  sum((*model)(ones({6, 5}, {.device = "cuda:0"}))).backward();
  const Tensor replica = testing::other_replicas(weight_)[0];
  model.reset();
  EXPECT_EQ(autograd::replica_of(weight_), nullptr);
  EXPECT_EQ(autograd::replica_of(replica), nullptr);
  EXPECT_EQ(values(weight_.grad()), std::vector<double>(385, 6));  // summed and whole
}

INSTANTIATE_TEST_SUITE_P(Gradients, BucketedParameters, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Sharded" : "Whole"; });

}  // namespace
}  // namespace lockstep::sharded
