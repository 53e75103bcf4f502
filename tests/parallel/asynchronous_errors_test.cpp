// An error that a device finds after the call has returned belongs to that call: it is thrown once, with the failures
// of the other devices attached, and the next call starts clean.
#include <gtest/gtest.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/index.h>
#include <lockstep/parallel/replica_group.h>

#include "parallel/mlp_job.h"

namespace lockstep::asynchronous_errors {
namespace {

using testing::floats;

constexpr std::int64_t kWords = 10, kRows = 30;

struct Words : nn::Module<Words> {
  nn::Embedding table{kWords, 4};
  auto members() { return nn::members("table", table); }
  Tensor forward(const Tensor& index) { return table(index); }
};

std::string message_of(const std::exception_ptr& error) try {
  std::rethrow_exception(error);
} catch (const std::exception& e) {
  return e.what();
}

Tensor good_batch(std::int64_t from) { return (arange(kRows) + from).remainder(kWords); }

class AsynchronousErrors : public ::testing::TestWithParam<int> {
 protected:
  const int devices_ = GetParam();
  const SimulatedDevices simulated_{{.count = devices_}};
};

TEST_P(AsynchronousErrors, OneBadBatchOfAnEvaluationFailsAlone) {
  DataParallel<Words> model{Words()}, other{Words()};
  const NoGrad guard;
  for (int bad_from = 0; bad_from < devices_; ++bad_from) {  // this replica and the later ones get bad rows
    std::vector<int> failed;
    for (int batch = 0; batch < 5 + devices_; ++batch) {
      Tensor index = good_batch(batch);
      if (batch == 2) index.slice(0, kRows / devices_ * bad_from, kRows).fill_(kWords + 7);
      DataParallel<Words>& used = batch % 2 == 1 ? other : model;
      try {
        const std::vector<float> got = floats(used(index));
        EXPECT_EQ(got, floats(embedding(used.module().table.weight.cpu(), index)));
      } catch (const InvalidArgument& error) {
        failed.push_back(batch);
        const auto expected = [](int replica) {
          return "[embedding] expected indices from 0 to 9, got 17 (in replica " + std::to_string(replica) +
                 " on cuda:" + std::to_string(replica) + ")";
        };
        EXPECT_EQ(error.what(), expected(bad_from));
        ASSERT_EQ(int(error.attached().size()), devices_ - 1 - bad_from);
        for (int i = bad_from + 1; i < devices_; ++i)
          EXPECT_EQ(message_of(error.attached()[std::size_t(i - bad_from - 1)]), expected(i));
      }
    }
    EXPECT_EQ(failed, std::vector{2}) << "bad from replica " << bad_from;
  }
}

// Without replicas: the tables of one model are on all devices.
TEST_P(AsynchronousErrors, OneResultOfSeveralDevicesFailsOnce) {
  const NoGrad guard;
  std::vector<Tensor> tables;
  for (int i = 0; i < devices_; ++i) tables.push_back(randn({kWords, 4}, {.device = Device::cuda(i)}));
  std::vector<int> failed;
  for (int batch = 0; batch < 2 + devices_; ++batch) {
    Tensor index = good_batch(batch);
    if (batch == 1) index.fill_(-1);
    Tensor sum;
    for (const Tensor& table : tables) {
      const Tensor part = embedding(table, index.to(table.device())).to(Device::cuda(0));
      sum = sum.defined() ? sum + part : part;
    }
    try {
      floats(sum);
    } catch (const InvalidArgument& error) {
      failed.push_back(batch);
      EXPECT_STREQ(error.what(), "[embedding] expected indices from 0 to 9, got -1");
      EXPECT_EQ(int(error.attached().size()), devices_ - 1);
    }
  }
  EXPECT_EQ(failed, std::vector{1});
}

// If replicas sum, a rank also fails with errors of other ranks.
struct SummedWords : nn::Module<SummedWords> {
  nn::Embedding table{kWords, 4};
  auto members() { return nn::members("table", table); }
  Tensor forward(const Tensor& index) {
    const Tensor words = table(index);
    return words + sum_over_replicas(sum(words, {0}));
  }
};

TEST_P(AsynchronousErrors, OneBadBatchOfReplicasThatSumFailsAlone) {
  DataParallel<SummedWords> model{SummedWords()};
  const NoGrad guard;
  for (const bool all_are_bad : {false, true}) {
    std::vector<int> failed;
    for (int batch = 0; batch < 3 + devices_; ++batch) {
      Tensor index = good_batch(batch);
      if (batch == 1) index.slice(0, all_are_bad ? 0 : kRows - 1, kRows).fill_(kWords);
      try {
        floats(model(index));
      } catch (const Error& error) {
        failed.push_back(batch);
        EXPECT_NE(std::string(error.what()).find("[embedding] expected indices from 0 to 9, got 10"), std::string::npos)
            << error.what();
      }
    }
    EXPECT_EQ(failed, std::vector{1}) << all_are_bad;
  }
}

// The same for the streams of one device, and for events.
TEST_P(AsynchronousErrors, AnErrorOfWorkThatIsNotWaitedForStays) {
  if (devices_ < 2) GTEST_SKIP();
  const Tensor here = randn({kWords, 4}, {.device = Device::cuda(0)}),
               there = randn({kWords, 4}, {.device = Device::cuda(1)});
  const Tensor bad = full({1}, kWords).to(kInt64);
  const Tensor a = embedding(here, bad.to(here.device())), b = embedding(there, bad.to(there.device()));
  EXPECT_THROW(a.cpu(), InvalidArgument);
  EXPECT_THROW(b.cpu(), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Devices, AsynchronousErrors, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace lockstep::asynchronous_errors
