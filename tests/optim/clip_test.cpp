// Clipping over all gradients, on one device and in all replicas of replicated parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <lockstep/core/error.h>
#include <lockstep/optim/clip.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "optim/cases.h"
#include "optim/replicas.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> gradient_values(const Tensor& parameter, std::size_t place = 0) {
  return optim::replica(parameter, place).grad().cpu().to(kFloat64).to_vector<double>();
}

std::vector<double> all_gradients(const std::vector<Tensor>& parameters, std::size_t place = 0) {
  std::vector<double> all;
  for (const Tensor& parameter : parameters)
    for (const double value : gradient_values(parameter, place)) all.push_back(value);
  return all;
}

double norm_of(const std::vector<double>& values, double p) {
  double total = 0;
  for (const double value : values)
    total = p == kInfinity ? std::max(total, std::abs(value)) : total + std::pow(std::abs(value), p);
  return p == kInfinity ? total : std::pow(total, 1 / p);
}

TEST(ClipGradNorm, ScalesAllGradientsByTheirCommonNorm) {
  for (const double p : {2., 1., 3., kInfinity}) {
    const std::vector<Tensor> parameters = testing::make_parameters({"cpu"});
    testing::set_gradients(parameters, 0);
    const std::vector<double> before = all_gradients(parameters);
    const double norm = norm_of(before, p);
    const Tensor got = optim::clip_grad_norm_(parameters, 0.5, {.norm_type = p});
    EXPECT_NEAR(got.item<double>(), norm, 1e-11 * norm) << p;
    EXPECT_EQ(got.sizes(), Shape());
    const std::vector<double> after = all_gradients(parameters);
    for (std::size_t i = 0; i < after.size(); ++i)
      ASSERT_NEAR(after[i], before[i] * 0.5 / (norm + 1e-6), 1e-14) << p << ", element " << i;
  }
}

TEST(ClipGradNorm, LeavesShortGradientsAlone) {
  const std::vector<Tensor> parameters = testing::make_parameters({"cpu"});
  testing::set_gradients(parameters, 0);
  const std::vector<double> before = all_gradients(parameters);
  optim::clip_grad_norm_(parameters, 1e9);
  EXPECT_EQ(all_gradients(parameters), before);
}

TEST(ClipGradNorm, IsBitIdenticalOnEveryReplicaAndOnOneDevice) {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16})
    for (const double p : {2., 1.5, kInfinity}) {
      SimulatedDevices devices({.count = 3, .max_delay_us = 20});
      const std::vector<Tensor> alone = testing::make_parameters({"cpu"}, dtype);
      const std::vector<Tensor> together = testing::make_parameters({"cuda:0", "cuda:1", "cuda:2"}, dtype);
      testing::set_gradients(alone, 0);
      testing::set_gradients(together, 0);
      const Tensor expected = optim::clip_grad_norm_(alone, 0.5, {.norm_type = p});
      const Tensor norm = optim::clip_grad_norm_(together, 0.5, {.norm_type = p});
      EXPECT_EQ(norm.device(), Device("cuda:0"));
      EXPECT_EQ(norm.dtype(), dtype);
      EXPECT_EQ(norm.item<double>(), expected.item<double>());
      for (const std::size_t k : {0, 1, 2})
        EXPECT_EQ(all_gradients(together, k), all_gradients(alone)) << dtype << ' ' << p;
    }
}

// Some parameters are replicated, others are on one device only: the norm covers them all.
TEST(ClipGradNorm, SpansDevices) {
  const TestDevices devices(3);
  std::vector<Tensor> parameters = testing::make_parameters({"cuda:0", "cuda:1"});
  for (const Tensor& more : testing::make_parameters({"cuda:2"})) parameters.push_back(more);
  testing::set_gradients(parameters, 0);
  const std::vector<double> before = all_gradients(parameters);
  const double norm = norm_of(before, 2), factor = 0.5 / (norm + 1e-6);
  EXPECT_NEAR(optim::clip_grad_norm_(parameters, 0.5).item<double>(), norm, 1e-11 * norm);
  const std::vector<double> after = all_gradients(parameters);
  for (std::size_t i = 0; i < after.size(); ++i) ASSERT_NEAR(after[i], before[i] * factor, 1e-14);
  for (const Tensor& parameter : parameters)
    EXPECT_EQ(gradient_values(parameter, optim::replica_count(parameter) - 1), gradient_values(parameter));
}

TEST(ClipGradNorm, DoesNotOverflow) {
  Tensor a = zeros({3}).requires_grad_();
  a.set_grad(full({3}, 1e30));
  EXPECT_NEAR(optim::clip_grad_norm_(std::vector{a}, 1).item<double>(), std::sqrt(3) * 1e30, 1e24);
  EXPECT_NEAR(a.grad().to_vector<float>()[0], 1 / std::sqrt(3), 1e-6);
}

TEST(ClipGradNorm, RefusesNonFiniteNormsWhereAsked) {
  Tensor a = zeros({2}).requires_grad_();
  a.set_grad(tensor({1., kInfinity}));
  EXPECT_THROW(optim::clip_grad_norm_(std::vector{a}, 1, {.error_if_nonfinite = true}), AutogradError);
  EXPECT_EQ(a.grad().to_vector<float>()[0], 1);
  a.set_grad(tensor({1., std::nan("")}));
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm_(std::vector{a}, 1, {.norm_type = kInfinity}).item<double>()));
  EXPECT_TRUE(std::isnan(a.grad().to_vector<float>()[0]));
}

TEST(ClipGradNorm, IsNotANumberWhereAnyGradientHasOne) {
  for (const double p : {1., 2., kInfinity}) {
    Tensor a = zeros({40}).requires_grad_(), b = zeros({2}).requires_grad_();
    a.set_grad(full({40}, 1.));
    a.grad().select(0, 7).fill_(NAN);
    b.set_grad(full({2}, 5.));
    EXPECT_TRUE(std::isnan(optim::clip_grad_norm_(std::vector{a, b}, 1, {.norm_type = p}).item<double>())) << p;
  }
}

TEST(ClipGradNorm, OfNoGradientsIsZero) {
  EXPECT_EQ(optim::clip_grad_norm_(testing::make_parameters({"cpu"}), 1).item<double>(), 0);
  EXPECT_EQ(optim::clip_grad_norm_({}, 1).item<double>(), 0);
}

TEST(ClipGradNorm, RefusesBadNumbers) {
  EXPECT_THROW(optim::clip_grad_norm_({}, -1), InvalidArgument);
  EXPECT_THROW(optim::clip_grad_norm_({}, std::nan("")), InvalidArgument);
  EXPECT_THROW(optim::clip_grad_norm_({}, 1, {.norm_type = 0}), InvalidArgument);
}

// For example, the bias of a layer without one.
TEST(Clipping, RefusesAnUndefinedParameterByItsNumber) {
  Tensor weight = ones({2}, {.requires_grad = true});
  sum(weight).backward();
  const std::string expected = "] expected parameter 1 to be a tensor, got an undefined one";
  const auto refusal = [](const auto& clip) -> std::string {
    try {
      clip();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { optim::clip_grad_norm_({weight, Tensor()}, 1); }), "[clip_grad_norm_" + expected);
  EXPECT_EQ(refusal([&] { optim::clip_grad_value_({weight, Tensor()}, 1); }), "[clip_grad_value_" + expected);
  EXPECT_EQ(refusal([&] {
              optim::scale_grad_(std::vector{weight, Tensor()}, tensor(2.0));
            }),
            "[scale_grad_" + expected);
  EXPECT_EQ(weight.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(ClipGradValue, ClampsEveryElementEverywhere) {
  const TestDevices devices(2);
  const std::vector<Tensor> parameters = testing::make_parameters({"cuda:0", "cuda:1"});
  testing::set_gradients(parameters, 0);
  const std::vector<double> before = all_gradients(parameters);
  optim::clip_grad_value_(parameters, 0.25);
  for (const std::size_t k : {0, 1}) {
    const std::vector<double> after = all_gradients(parameters, k);
    for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(after[i], std::clamp(before[i], -0.25, 0.25));
  }
}

TEST(Clipping, KeepsGradientsInTheirBucket) {
  Tensor a = zeros({2}).requires_grad_(), b = zeros({2}).requires_grad_();
  Tensor bucket = tensor({3., 0., 0., 4.});
  a.set_grad(bucket.narrow(0, 0, 2));
  b.set_grad(bucket.narrow(0, 2, 2));
  EXPECT_EQ(optim::clip_grad_norm_(std::vector{a, b}, 1).item<double>(), 5);
  EXPECT_NEAR(bucket.to_vector<float>()[3], 0.8, 1e-6);
  optim::clip_grad_value_(std::vector{a, b}, 0.5);
  EXPECT_EQ(bucket.to_vector<float>()[3], 0.5);
}

}  // namespace
}  // namespace lockstep
