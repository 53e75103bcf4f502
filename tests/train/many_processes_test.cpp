// A Trainer over several processes, simulated as threads: it trains bit for bit what one process with all the devices
// trains, and resumes with another number of processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "support/in_processes.h"
#include "support/temporary_folder.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::columns_of;
using testing::FitJob;
using testing::in_processes;
using testing::kSilent;
using testing::same;
using testing::TemporaryFolder;

struct Grid {
  int processes;
  int devices;
};
constexpr Grid kGrids[] = {{1, 4}, {2, 2}, {4, 1}};

std::string name_of(const Grid& grid) { return std::to_string(grid.processes) + " x " + std::to_string(grid.devices); }

/// On four devices a batch of 6 rows is divided into 2, 2, 2 and 0, the last batch of an epoch into 1, 1, 1 and 1.
TrainerOptions training(const TemporaryFolder& folder) {
  return {.max_epochs = 3,
          .gradient_clip_val = 0.5,
          .accumulate = 2,
          .log_every = 3,
          .checkpoint = {.folder = folder.path(), .every_steps = 2, .keep = 0, .resume = true},
          .progress = kSilent,
          .parallel = {.buckets = {.first_bytes = 64, .bytes = 300}, .loss = ProcessLoss::sum}};
}

/// Each process's exception from fit(), if any, and its history.
struct Outcome {
  std::vector<std::exception_ptr> failures;
  std::vector<History> histories;
};

Outcome fit(const Grid& grid, const FitJob::Options& job, const TrainerOptions& options) {
  const SimulatedDevices devices({.count = grid.processes * grid.devices});
  Outcome outcome;
  outcome.histories.resize(std::size_t(grid.processes));
  outcome.failures = in_processes(grid.processes, [&](const World& world) {
    FitJob::Options mine = job;
    if (world.rank().value() < grid.processes - 1) mine.fail_in = -1;  // only the last process fails
    TrainerOptions how = options;
    for (int d = 0; d < grid.devices; ++d) how.devices.push_back(Device::cuda(world.rank().value() * grid.devices + d));
    how.parallel.world = world;
    mine.share = Trainer(how).share();
    outcome.histories[std::size_t(world.rank().value())] = FitJob(mine).fit(how);
  });
  return outcome;
}

void expect_no_failure(const Outcome& outcome) {
  for (std::size_t p = 0; p < outcome.failures.size(); ++p)
    if (outcome.failures[p])
      ADD_FAILURE() << "process " << p << ": " << testing::message_of<Error>(outcome.failures[p]);
}

/// Compares all parts of two checkpoints that affect further training; means over rows may be summed in another order.
void expect_same_training(const Checkpoint& a, const Checkpoint& b) {
  for (const char* section : {"model", "optimizer", "schedule"})
    EXPECT_TRUE(same(a.tensors(section), b.tensors(section))) << section;
  EXPECT_EQ(a.contains("grad_scaler"), b.contains("grad_scaler"));
  if (a.contains("grad_scaler")) {
    EXPECT_TRUE(same(a.tensors("grad_scaler"), b.tensors("grad_scaler")));
  }
  for (const char* section : {"loader", "validation_loader"})
    EXPECT_EQ(a.loader(section), b.loader(section)) << section;
  EXPECT_EQ(a.generator("random"), b.generator("random"));
  for (const char* section : {"epoch", "step", "step_in_epoch", "reported_step"})
    EXPECT_EQ(a.integer(section), b.integer(section)) << section;
}

void expect_near(const History& got, const History& expected, double relative = 1e-6) {
  const auto columns = columns_of(expected);
  ASSERT_EQ(columns_of(got).size(), columns.size());
  for (const auto& [name, values] : columns) {
    const History::Column& others = got.column(name);
    ASSERT_EQ(others.size(), values.size()) << name;
    for (std::size_t row = 0; row < values.size(); ++row) {
      ASSERT_EQ(others[row].has_value(), values[row].has_value()) << name;
      if (values[row]) {
        EXPECT_NEAR(*others[row], *values[row], relative * std::abs(*values[row])) << name << ' ' << row;
      }
    }
  }
}

// The tolerance for a metric that the loss computes in that precision: half a unit in the last place of each process's
// mean.
double rounding_of(Precision precision) {
  return precision == Precision::bfloat16 ? 0x1p-8 : precision == Precision::float16 ? 0x1p-11 : 1e-6;
}

const FitJob::Options kJob = {.batch_size = 6, .validates = true, .norm_and_dropout = true, .uses_sum_loss = true};

void expect_what_one_process_trains(const FitJob::Options& job, const std::function<void(TrainerOptions&)>& change) {
  const TemporaryFolder folder;
  TrainerOptions options = training(folder);
  change(options);
  const Outcome expected = fit({1, 4}, job, options);
  expect_no_failure(expected);
  const CheckpointFolder checkpoints(folder.path());
  ASSERT_GE(checkpoints.steps().size(), 6u);
  for (const Grid& grid : kGrids) {
    SCOPED_TRACE(name_of(grid));
    const TemporaryFolder other;
    options.checkpoint.folder = other.path();
    const Outcome outcome = fit(grid, job, options);
    expect_no_failure(outcome);
    for (const History& history : outcome.histories) {
      EXPECT_EQ(history.csv(), outcome.histories[0].csv()) << "the same in all processes, times too";
      expect_near(history, expected.histories[0], rounding_of(options.precision));
    }
    const CheckpointFolder others(other.path());
    ASSERT_EQ(others.steps(), checkpoints.steps());
    for (const std::int64_t step : checkpoints.steps()) {
      SCOPED_TRACE(step);
      expect_same_training(others.load(step), checkpoints.load(step));
    }
  }
}

TEST(ManyProcesses, TrainWhatOneProcessTrains) {
  expect_what_one_process_trains(kJob, [](TrainerOptions&) {});
}

TEST(ManyProcesses, TrainWhatOneProcessTrainsWithDividedOptimizerState) {
  for (const Precision precision : {Precision::float32, Precision::float16})
    expect_what_one_process_trains(kJob, [=](TrainerOptions& options) {
      options.precision = precision;
      options.parallel.shard = Shard::optimizer_state;
    });
}

TEST(ManyProcesses, TrainWhatOneProcessTrainsIn16BitPrecision) {
  for (const Precision precision : {Precision::bfloat16, Precision::float16})
    expect_what_one_process_trains(kJob, [=](TrainerOptions& options) { options.precision = precision; });
}

// The loader has no share, so processes exchange their numbers of rows: 2 and 1 of a batch of 3, 1 and 0 of the last
// one.
TEST(ManyProcesses, WeighTheBatchesOfALoaderWithoutAShareByTheRowsOfAll) {
  const auto weights = [](const Grid& grid) {
    const SimulatedDevices devices({.count = 2});
    std::vector<std::vector<float>> ends(std::size_t(grid.processes));
    const auto failures = in_processes(grid.processes, [&](const World& world) {
      TrainerOptions options = {
          .accumulate = 2, .progress = kSilent, .parallel = {.world = world, .loss = ProcessLoss::sum}};
      for (int d = 0; d < grid.devices; ++d)
        options.devices.push_back(Device::cuda(world.rank().value() * grid.devices + d));
      const Trainer trainer(options);
      const Tensor all = arange(14, {.dtype = kFloat32}).reshape({7, 2}) / 7.;
      std::vector<Tensor> batches;
      for (std::int64_t first = 0; first < 7; first += 3) {
        const std::int64_t rows = std::min<std::int64_t>(3, 7 - first);
        const data::RowRange mine = trainer.share().rows(rows);
        batches.push_back(all.narrow(0, first + mine.first, mine.count));
      }
      nn::Linear net(2, 1);
      optim::SGD optimizer(net.parameters(), {.lr = 0.1});
      trainer.fit(net, batches,
                  {.loss =
                       [](auto& model, auto& batch, auto&) {
                         const Tensor output = model(batch);
                         return sum(output * output) / double(model.batch_rows());
                       },
                   .optimizer = optimizer});
      ends[std::size_t(world.rank().value())] = net.weight.detach().to_vector<float>();
    });
    for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
    return ends;
  };
  const auto one = weights({1, 2}), two = weights({2, 1});
  EXPECT_EQ(two[0], one[0]);
  EXPECT_EQ(two[1], one[0]);
}

// A mean over each process's rows is weighted by their number, which adds one rounding.
TEST(ManyProcesses, WithMeansOfTheirRowsTrainTheSameToRounding) {
  const FitJob::Options job = {.batch_size = 6, .validates = true};
  const TemporaryFolder folder;
  TrainerOptions options = training(folder);
  options.parallel.loss = ProcessLoss::mean;
  const Outcome expected = fit({1, 4}, job, options);
  for (const Grid& grid : {Grid{2, 2}, Grid{4, 1}}) {
    SCOPED_TRACE(name_of(grid));
    const TemporaryFolder other;
    options.checkpoint.folder = other.path();
    const Outcome outcome = fit(grid, job, options);
    expect_no_failure(outcome);
    const auto model = CheckpointFolder(other.path()).load(12).tensors("model");
    for (const auto& [key, value] : CheckpointFolder(folder.path()).load(12).tensors("model")) {
      const auto got = model.find(key)->to_vector<float>(), right = value.to_vector<float>();
      for (std::size_t i = 0; i < right.size(); ++i)
        EXPECT_NEAR(got[i], right[i], 1e-6 * (1 + std::abs(right[i]))) << key;
    }
    for (const char* column : {"train_loss", "validation_loss"})
      for (std::size_t row = 0; row < expected.histories[0].rows(); ++row)
        if (const auto& value = expected.histories[0].column(column)[row]) {
          EXPECT_NEAR(outcome.histories[0].column(column)[row].value(), *value, 1e-5 * *value) << column << row;
        }
  }
}

// The last process fails in some call of its loss, which ends all. Then equally many devices resume, in another grid.
class FromACheckpoint : public ::testing::TestWithParam<bool> {
 protected:
  static TrainerOptions training(const TemporaryFolder& folder) {
    TrainerOptions options = lockstep::train::training(folder);
    options.parallel.shard = GetParam() ? Shard::optimizer_state : Shard::none;
    return options;
  }
};

TEST_P(FromACheckpoint, OfAnotherNumberOfProcessesTheyGoOn) {
  const TemporaryFolder whole_folder;
  const Outcome whole = fit({1, 4}, kJob, training(whole_folder));
  expect_no_failure(whole);
  const Checkpoint expected = CheckpointFolder(whole_folder.path()).load(12);
  std::int64_t fail_in = 5;
  for (const Grid& before : kGrids)
    for (const Grid& after : kGrids) {
      SCOPED_TRACE(name_of(before) + " then " + name_of(after));
      const TemporaryFolder folder;
      FitJob::Options failing = kJob;
      failing.fail_in = fail_in;
      fail_in += 3;  // includes the calls for validation
      const Outcome killed = fit(before, failing, training(folder));
      for (const std::exception_ptr& failure : killed.failures) {
        const std::string error = testing::message_of<std::runtime_error>(failure);
        EXPECT_NE(error.find("power failure"), std::string::npos) << error;
      }
      const Outcome resumed = fit(after, kJob, training(folder));
      expect_no_failure(resumed);
      expect_same_training(CheckpointFolder(folder.path()).load(12), expected);
      expect_near(resumed.histories.back(), whole.histories[0]);
    }
}

INSTANTIATE_TEST_SUITE_P(ShardedState, FromACheckpoint, ::testing::Bool());

TEST(ManyProcesses, ResumedAsTheyWereReportTheSameBits) {
  const TemporaryFolder whole_folder, folder;
  const Outcome whole = fit({2, 2}, kJob, training(whole_folder));
  FitJob::Options failing = kJob;
  failing.fail_in = 11;
  fit({2, 2}, failing, training(folder));
  const Outcome resumed = fit({2, 2}, kJob, training(folder));
  expect_no_failure(resumed);
  EXPECT_EQ(columns_of(resumed.histories[0]), columns_of(whole.histories[0]));
}

}  // namespace
}  // namespace lockstep::train
