// Changes that forward makes in buffers and parameters, on any number of devices and processes: batch statistics are
// averaged over the replicas that took some, other buffers get the first process's value, and trained parameters may
// not change.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/parallel/sync_batch_norm.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "parallel/layouts.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::buffers {
namespace {

using testing::for_each_process;
using testing::Layout;
using testing::values;
using Doubles = std::vector<double>;

const TensorOptions kWide = {.dtype = kFloat64};

void expect_near(const Doubles& got, const Doubles& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12) << what << ", element " << i;
}

// A norm after a branch on data: only shards that begin with a positive number reach it.
template <class Norm>
struct Branched : nn::Module<Branched<Norm>> {
  nn::Parameter factor{ones({2}, kWide)};
  Norm norm{2, {.tensor = kWide}};
  auto members() { return nn::members("factor", factor, "norm", norm); }
  Tensor forward(const Tensor& x) {
    const bool takes = !this->is_training() || (x.size(0) > 0 && x.select(0, 0).select(0, 0).item<double>() > 0);
    return (takes ? norm(x) : x) * factor;
  }
};

struct Statistics {
  Doubles mean, variance;
  double count;
};

Statistics statistics_of(nn::BatchNormState& norm) {
  return {values(*norm.running_mean), values(*norm.running_var), values(*norm.num_batches_tracked)[0]};
}

void expect_same(const Statistics& got, const Statistics& expected, const std::string& what) {
  expect_near(got.mean, expected.mean, what + ": mean");
  expect_near(got.variance, expected.variance, what + ": variance");
  EXPECT_EQ(got.count, expected.count) << what;
}

// The mean of a norm's statistics after each of these shards alone, each starting from `before`; `before` without
// shards.
Statistics mean_over(const std::vector<Tensor>& shards, const Statistics& before) {
  if (shards.empty()) return before;
  Statistics all = {Doubles(2), Doubles(2), before.count + 1};
  for (const Tensor& shard : shards) {
    nn::BatchNorm1d alone(2, {.tensor = kWide});
    alone.running_mean->copy_(tensor(before.mean, kWide));
    alone.running_var->copy_(tensor(before.variance, kWide));
    alone(shard);
    const Statistics own = statistics_of(alone);
    for (std::size_t i = 0; i < 2; ++i) {
      all.mean[i] += own.mean[i] / double(shards.size());
      all.variance[i] += own.variance[i] / double(shards.size());
    }
  }
  return all;
}

TEST(BatchNormOfSomeReplicas, HasTheMeanOverThem) {
  for (const Layout& layout : testing::kLayouts)
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      const auto all = std::size_t(layout.processes * layout.devices);
      DataParallel model(Branched<nn::BatchNorm1d>(), {.device_ids = ids, .world = world});
      Statistics expected = {Doubles(2, 0), Doubles(2, 1), 0};
      for (unsigned takers = 0; takers < 1u << all; ++takers) {
        const Tensor batch = randn({std::int64_t(3 * all), 2}, kWide);
        std::vector<Tensor> taken;
        for (std::size_t i = 0; i < all; ++i) {
          const Tensor shard = batch.narrow(0, 3 * std::int64_t(i), 3);
          const bool takes = takers >> i & 1;
          shard.select(0, 0).fill_(takes ? 1 : -1);
          if (takes) taken.push_back(shard.clone());
        }
        const auto [first, count] = model.share().rows(batch.size(0));
        model.train();
        sum(model(batch.narrow(0, first, count))).backward();
        expected = mean_over(taken, expected);
        const std::string what = testing::text_of(layout) + ", takers " + std::to_string(takers);
        expect_same(statistics_of(model.module().norm), expected, what);
        // Every replica has these statistics.
        model.eval();
        const Tensor ones_in = ones({layout.devices, 2}, kWide);
        nn::BatchNorm1d alone(2, {.tensor = kWide});
        alone.running_mean->copy_(tensor(expected.mean, kWide));
        alone.running_var->copy_(tensor(expected.variance, kWide));
        alone.eval();
        expect_near(values(model(ones_in)), values(alone(ones_in)), what);
      }
    });
}

// All processes end with the same bits, whichever replicas ran the norm.
TEST(BatchNormOfSomeReplicas, IsTheSameInAllProcesses) {
  for (const Layout& layout : testing::kLayouts) {
    std::vector<Doubles> ends(std::size_t(layout.processes));
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(Branched<nn::BatchNorm1d>(), {.device_ids = ids, .world = world});
      const Tensor batch = randn({24, 2}, kWide);
      const auto [first, count] = model.share().rows(24);
      for (int step = 0; step < 4; ++step) model(batch.narrow(0, first, count));
      Doubles& end = ends[std::size_t(world.rank().value())];
      for (const auto& [name, value] : model.state_dict())
        for (const double each : values(value)) end.push_back(each);
    });
    for (const Doubles& end : ends) EXPECT_EQ(end, ends[0]) << testing::text_of(layout);
  }
}

struct Rows {
  Layout layout;
  std::vector<std::int64_t> of_process;
  std::vector<double> weights;           // by device
  std::vector<std::int64_t> of_replica;  // over all processes, only replicas that run
};

// Each case has replicas without rows: before others, after them, or in their own process.
const std::vector<Rows> kRows = {
    {{1, 3}, {8}, {1, 0, 1}, {4, 0, 4}},
    {{1, 3}, {6}, {0, 2, 1}, {0, 4, 2}},
    {{1, 5}, {9}, {0, 1, 0, 0, 2}, {0, 3, 0, 0, 6}},
    {{2, 1}, {5, 0}, {}, {5, 0}},
    {{2, 1}, {0, 5}, {}, {0, 5}},
    {{2, 2}, {6, 0}, {}, {3, 3, 0}},
    {{2, 2}, {4, 2}, {1, 0}, {4, 2}},
    {{2, 2}, {4, 2}, {0, 1}, {0, 4, 0, 2}},
    {{3, 1}, {4, 0, 3}, {}, {4, 0, 3}},
    {{3, 1}, {0, 0, 3}, {}, {0, 0, 3}},
};

std::string text_of(const Rows& rows) {
  std::string all = testing::text_of(rows.layout) + ", rows";
  for (const std::int64_t count : rows.of_replica) all += ' ' + std::to_string(count);
  return all;
}

std::vector<Tensor> shards_of(const Tensor& batch, const Rows& rows) {
  std::vector<Tensor> shards;
  std::int64_t first = 0;
  for (const std::int64_t count : rows.of_replica) {
    if (count > 0) shards.push_back(batch.narrow(0, first, count));
    first += count;
  }
  return shards;
}

Tensor rows_of_process(const Tensor& batch, const Rows& rows, const World& world) {
  std::int64_t first = 0;
  const auto own = std::size_t(world.rank().value());
  for (std::size_t p = 0; p < own; ++p) first += rows.of_process[p];
  return batch.narrow(0, first, rows.of_process[own]);
}

template <class Norm>
struct Normed : nn::Module<Normed<Norm>> {
  nn::Linear fc{2, 2, {.tensor = kWide}};
  Norm norm{2, {.tensor = kWide}};
  auto members() { return nn::members("fc", fc, "norm", norm); }
  Tensor forward(const Tensor& x) { return norm(fc(x)); }
};

// Gradients and statistics are those of the replicas with rows.
TEST(BatchNormOfNoRows, TakesPartAndChangesNothing) {
  for (const Rows& rows : kRows)
    for_each_process(rows.layout, [&](const World& world, const DeviceIds& ids) {
      Normed<nn::BatchNorm1d> alone;
      DataParallel model(
          copy(alone),
          {.device_ids = ids, .scatter = {.weights = rows.weights}, .world = world, .loss = ProcessLoss::sum});
      alone.load_state_dict(model.module().state_dict());
      Statistics expected = {Doubles(2, 0), Doubles(2, 1), 0};
      for (int step = 0; step < 2; ++step) {
        std::int64_t all = 0;
        for (const std::int64_t count : rows.of_process) all += count;
        const Tensor batch = randn({all, 2}, kWide), weight = randn({all, 2}, kWide);
        const Tensor y = model(rows_of_process(batch, rows, world).to(model.device()));
        sum(y * rows_of_process(weight, rows, world).to(model.device())).backward();
        std::vector<Tensor> inputs;
        const std::vector<Tensor> shards = shards_of(batch, rows), weights = shards_of(weight, rows);
        for (std::size_t i = 0; i < shards.size(); ++i) {
          const Tensor h = alone.fc(shards[i]);
          inputs.push_back(h.detach());
          sum(alone.norm(h) * weights[i]).backward();
        }
        expected = mean_over(inputs, expected);
        const std::string what = text_of(rows) + ", step " + std::to_string(step);
        expect_same(statistics_of(model.module().norm), expected, what);
        for (std::size_t i = 0; i < alone.parameters().size(); ++i)
          expect_near(values(model.parameters()[i].grad()), values(alone.parameters()[i].grad()), what);
      }
    });
}

TEST(SyncBatchNormOfNoRows, IsThatOfTheWholeBatch) {
  for (const Rows& rows : kRows)
    for_each_process(rows.layout, [&](const World& world, const DeviceIds& ids) {
      Normed<nn::BatchNorm1d> alone;
      Normed<nn::SyncBatchNorm> synchronized;
      DataParallel model(
          std::move(synchronized),
          {.device_ids = ids, .scatter = {.weights = rows.weights}, .world = world, .loss = ProcessLoss::sum});
      alone.load_state_dict(model.module().state_dict());
      for (int step = 0; step < 2; ++step) {
        std::int64_t all = 0;
        for (const std::int64_t count : rows.of_process) all += count;
        const Tensor batch = randn({all, 2}, kWide), weight = randn({all, 2}, kWide);
        const Tensor y = model(rows_of_process(batch, rows, world).to(model.device()));
        sum(y * rows_of_process(weight, rows, world).to(model.device())).backward();
        sum(alone(batch) * weight).backward();
        const std::string what = text_of(rows) + ", step " + std::to_string(step);
        expect_same(statistics_of(model.module().norm), statistics_of(alone.norm), what);
        for (std::size_t i = 0; i < alone.parameters().size(); ++i)
          expect_near(values(model.parameters()[i].grad()), values(alone.parameters()[i].grad()), what);
      }
    });
}

// No replica has rows.
TEST(BatchNormOfNoRows, MayBeThatOfAWholeBatch) {
  for (const Layout& layout : testing::kLayouts)
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      const auto pass = [&](auto module) {
        DataParallel model(std::move(module), {.device_ids = ids, .world = world, .loss = ProcessLoss::sum});
        const Tensor y = model(empty({0, 2}, {.dtype = kFloat64, .device = model.device()}));
        EXPECT_EQ(y.sizes(), Shape({0, 2})) << testing::text_of(layout);
        sum(y).backward();
        const Statistics after = statistics_of(model.module().norm);
        EXPECT_EQ(after.mean, Doubles(2, 0));
        EXPECT_EQ(after.variance, Doubles(2, 1));
        EXPECT_EQ(values(model.module().fc.weight.grad()), Doubles(4, 0));
      };
      pass(Normed<nn::BatchNorm1d>());
      pass(Normed<nn::SyncBatchNorm>());
    });
}

// Statistics computed by hand, which are NaN without rows.
struct OwnStatistics : nn::Module<OwnStatistics> {
  nn::Buffer average{zeros({2}, kWide), nn::BufferSync::mean};
  nn::Parameter scale{ones({1}, kWide)};
  auto members() { return nn::members("average", average, "scale", scale); }
  Tensor forward(const Tensor& x) {
    const NoGrad guard;
    average.copy_(mean(x, {0}));
    const GradMode mode(true);
    return x * scale;
  }
};

TEST(Buffers, ThatBecomeMeansLeaveOutReplicasWithoutRows) {
  for (const Rows& rows : kRows)
    for_each_process(rows.layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(OwnStatistics(), {.device_ids = ids, .scatter = {.weights = rows.weights}, .world = world});
      std::int64_t all = 0;
      for (const std::int64_t count : rows.of_process) all += count;
      const Tensor batch = randn({all, 2}, kWide);
      model(rows_of_process(batch, rows, world).to(model.device()));
      const std::vector<Tensor> shards = shards_of(batch, rows);
      Doubles expected(2);
      for (const Tensor& shard : shards)
        for (std::size_t i = 0; i < 2; ++i) expected[i] += values(mean(shard, {0}))[i] / double(shards.size());
      expect_near(values(model.module().average), expected, text_of(rows));
    });
}

// A 0-dim output of each replica: replicas without rows contribute none if others have rows.
struct MeanOfRows : nn::Module<MeanOfRows> {
  nn::Linear fc{2, 1, {.tensor = kWide}};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return mean(fc(x)); }
};

TEST(ReplicasOfNoRows, AddNothingToAVectorOfLosses) {
  for (const Rows& rows : kRows) {
    if (rows.layout.processes > 1) continue;
    for_each_process(rows.layout, [&](const World&, const DeviceIds& ids) {
      MeanOfRows alone;
      DataParallel model(copy(alone), {.device_ids = ids, .scatter = {.weights = rows.weights}});
      const Tensor batch = randn({rows.of_process[0], 2}, kWide);
      const Tensor losses = model(batch.to(model.device()));
      std::vector<Tensor> expected;
      for (const Tensor& shard : shards_of(batch, rows)) expected.push_back(alone(shard));
      expect_near(values(losses), values(stack(expected)), text_of(rows));
      mean(losses).backward();
      mean(stack(expected)).backward();
      for (std::size_t i = 0; i < 2; ++i)
        expect_near(values(model.parameters()[i].grad()), values(alone.parameters()[i].grad()), text_of(rows));
    });
  }
}

// Three kinds of state of which only the primary's value is kept; one is int64.
struct Primary : nn::Module<Primary> {
  nn::Buffer seen{zeros({1}, kWide)}, rows{zeros({1}, {.dtype = kInt64})};
  nn::Parameter frozen{zeros({1}, kWide)}, weight{ones({1}, kWide)};
  Primary() { frozen.requires_grad_(false); }
  auto members() { return nn::members("seen", seen, "rows", rows, "frozen", frozen, "weight", weight); }
  Tensor forward(const Tensor& x) {
    const Tensor y = x * weight + (seen + frozen);
    const NoGrad guard;
    seen.add_(sum(x).view({1}));
    rows.add_(full({1}, double(x.size(0)), {.dtype = kInt64, .device = x.device()}));
    frozen.add_(2 * sum(x).view({1}));
    return y;
  }
};

TEST(Buffers, AreTheFirstProcessesPrimarys) {
  for (const Layout& layout : testing::kLayouts)
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(Primary(), {.device_ids = ids, .world = world});
      const auto all = std::int64_t(layout.processes * layout.devices);
      Primary alone;
      for (int step = 0; step < 3; ++step) {
        const Tensor batch = randn({2 * all, 1}, kWide);
        const auto [first, count] = model.share().rows(2 * all);
        const double before = values(alone.seen)[0] + values(alone.frozen)[0];
        const Tensor got = model(batch.narrow(0, first, count));
        const std::string what = testing::text_of(layout) + ", step " + std::to_string(step);
        Doubles expected = values(batch.narrow(0, first, count));
        for (double& each : expected) each += before;
        expect_near(values(got), expected, what);
        alone(batch.narrow(0, 0, 2));  // the rows of the first device of all
        expect_near(values(model.module().seen), values(alone.seen), what);
        expect_near(values(model.module().frozen), values(alone.frozen), what);
        EXPECT_EQ(values(model.module().rows), values(alone.rows)) << what;
      }
    });
}

// Only the last process's forward changes the buffer: that change is lost, as are changes in other replicas.
struct ChangesInOne : nn::Module<ChangesInOne> {
  nn::Buffer seen{zeros({1}, kWide)};
  auto members() { return nn::members("seen", seen); }
  Tensor forward(const Tensor& x) {
    const Tensor y = x + seen;
    if (x.select(0, 0).item<double>() > 0) seen.add_(1);
    return y;
  }
};

TEST(Buffers, AreTheFirstProcessesWhereAnotherAloneChangedIts) {
  for (const Layout& layout : {Layout{2, 1}, Layout{2, 2}, Layout{3, 1}})
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(ChangesInOne(), {.device_ids = ids, .world = world});
      const bool is_last = world.rank().value() == layout.processes - 1;
      for (int step = 0; step < 3; ++step) {
        const Tensor x = full({layout.devices}, is_last ? 1 : -1, kWide);
        EXPECT_EQ(values(model(x)), values(x)) << testing::text_of(layout);
        EXPECT_EQ(values(model.module().seen), Doubles{0}) << testing::text_of(layout);
      }
    });
}

// Changes its weight like an embedding with max_norm: shortens the rows that occur in the batch.
struct Table : nn::Module<Table> {
  nn::Parameter weight{full({4, 1}, 5, kWide)};
  bool shortens = true;
  auto members() { return nn::members("weight", weight, "shortens", shortens); }
  Tensor forward(const Tensor& index) {
    if (shortens) {
      const NoGrad guard;
      for (const double row : values(index)) weight.narrow(0, std::int64_t(row), 1).fill_(1);
    }
    return weight.index_select(0, index);
  }
};

struct Holder : nn::Module<Holder> {
  Table table;
  auto members() { return nn::members("table", table); }
  Tensor forward(const Tensor& index) { return table(index); }
};

TEST(ParametersThatForwardChanges, AreRefusedByName) {
  for (const Layout& layout : testing::kLayouts)
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(Holder(), {.device_ids = ids, .world = world});
      const Tensor x = full({layout.devices}, world.rank().value(), {.dtype = kInt64});
      if (layout.processes * layout.devices == 1) {
        EXPECT_EQ(values(model(x)), Doubles{1});
        return;
      }
      const std::string message = testing::thrown<InvalidArgument>([&] { model(x); });
      EXPECT_NE(message.find("table.weight"), std::string::npos) << message;
      EXPECT_NE(message.find("optimizer.step()"), std::string::npos) << message;
    });
}

// The primary's value is kept, and all replicas get it.
TEST(ParametersThatForwardChanges, AreEqualAfterTheRefusal) {
  for (const int count : {2, 3, 5})
    for_each_process({1, count}, [&](const World&, const DeviceIds& ids) {
      DataParallel model(Holder(), {.device_ids = ids});
      std::vector<std::int64_t> rows;
      for (int i = 0; i < count; ++i) rows.push_back(i % 4);
      EXPECT_THROW(model(tensor(rows)), InvalidArgument);
      model.module().table.shortens = false;
      Doubles expected(std::size_t(count), 5);
      expected[0] = 1;
      if (count == 5) expected[4] = 1;
      EXPECT_EQ(values(model(tensor(rows))), expected) << count;
    });
}

// Forward may change a frozen parameter like a buffer: the first primary's value is kept. After thawing, training goes
// on from that value.
TEST(ParametersThatForwardChanges, AreAsBuffersWhileTheyAreFrozen) {
  for (const Layout& layout : testing::kLayouts)
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(Holder(), {.device_ids = ids, .world = world, .loss = ProcessLoss::sum});
      Table& table = model.module().table;
      optim::SGD optimizer(model.parameters(), {.lr = 0.5});
      const int all = layout.processes * layout.devices;
      const Tensor batch = arange(all, {.dtype = kInt64}).remainder(4);
      const auto [first, count] = model.share().rows(all);
      table.weight.requires_grad_(false);
      model(batch.narrow(0, first, count));
      Doubles expected = {1, 5, 5, 5};
      EXPECT_EQ(values(table.weight), expected) << testing::text_of(layout);
      table.weight.requires_grad_(true);
      table.shortens = false;
      sum(model(batch.narrow(0, first, count))).backward();
      optimizer.step();
      for (int i = 0; i < all; ++i) expected[std::size_t(i % 4)] -= 0.5;
      EXPECT_EQ(values(table.weight), expected) << testing::text_of(layout);
      const Tensor zero = zeros({layout.devices}, {.dtype = kInt64});
      EXPECT_EQ(values(model(zero)), Doubles(std::size_t(layout.devices), expected[0])) << testing::text_of(layout);
    });
}

}  // namespace
}  // namespace lockstep::buffers
