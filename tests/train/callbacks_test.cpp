// Callbacks are called at the fixed points of training, can end it, and continue exactly in a resumed run.
#include <lockstep/train/callbacks.h>

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <stdexcept>

#include <lockstep/io/safetensors.h>
#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "support/in_processes.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::columns_of;
using testing::FitJob;
using testing::in_processes;
using testing::kSilent;
using testing::same;
using testing::TemporaryFolder;
using testing::thrown;

struct Recorder : Callback {
  std::string log;
  void note(const char* turn, const FitState& fit) {
    log += turn + std::to_string(fit.epoch()) + '/' + std::to_string(fit.step()) + ' ';
  }
  void on_fit_begin(FitState& fit) override { note("fit", fit); }
  void on_fit_end(FitState& fit) override { note("end", fit); }
  void on_epoch_begin(FitState& fit) override { note("epoch", fit); }
  void on_epoch_end(FitState& fit) override { note("~epoch", fit); }
  void on_step_begin(FitState& fit) override { note("step", fit); }
  void on_step_end(FitState& fit) override { note("~step", fit); }
  void on_validation_begin(FitState& fit) override { note("validation", fit); }
  void on_validation_end(FitState& fit) override { note("~validation", fit); }
};

// A net whose validation metric "score" follows a script, by epoch.
struct Scripted {
  std::vector<double> script;
  std::int64_t validations = 0;
  nn::Linear net{2, 1};
  optim::SGD optimizer{net.parameters(), {.lr = 0.1}};
  data::DataLoader<data::TensorDataset<1>> loader{data::TensorDataset<1>(ones({6, 2})),
                                                  {.batch_size = 3, .shuffle = true, .seed = 1}};
  std::vector<Tensor> validation = {ones({3, 2})};

  explicit Scripted(std::vector<double> scores) : script(std::move(scores)) {}

  History fit(Callbacks callbacks, TrainerOptions options = {.num_gpus = 0}, ProgressOptions progress = kSilent) {
    options.max_epochs = std::int64_t(script.size());
    options.progress = progress;
    return Trainer(options).fit(net, loader,
                                {.loss =
                                     [&](auto& model, auto& batch, auto& metrics) {
                                       if (!model.module().is_training())
                                         metrics.add("score", tensor(script.at(std::size_t(validations++))));
                                       return mean(model(batch));
                                     },
                                 .optimizer = optimizer,
                                 .validation = validation,
                                 .callbacks = std::move(callbacks)});
  }
};

TEST(Callbacks, MayBeReferencesPointersAndShared) {
  Recorder one, two;
  const auto three = std::make_shared<Recorder>();
  Scripted job({1, 2});
  job.fit({one, &two, three});
  EXPECT_FALSE(one.log.empty());
  EXPECT_EQ(one.log, two.log);
  EXPECT_EQ(one.log, three->log);
  Scripted alone({1});
  alone.fit({&two});
  EXPECT_EQ(thrown<InvalidArgument>([&] { alone.fit({static_cast<Recorder*>(nullptr)}); }),
            "[callbacks] expected a callback, got a null pointer");
}

TEST(Callbacks, HearOfEveryTurnInItsOrder) {
  const TestDevices devices(2);
  Scripted job({1, 2});
  Recorder recorder;
  job.fit({recorder}, {.num_gpus = 2});
  EXPECT_EQ(recorder.log,
            "fit1/0 epoch1/0 step1/0 ~step1/1 step1/1 ~step1/2 validation1/2 ~validation1/2 ~epoch1/2 "
            "epoch2/2 step2/2 ~step2/3 step2/3 ~step2/4 validation2/4 ~validation2/4 ~epoch2/4 end2/4 ");
}

TEST(Callbacks, SeeTheMetricsOfTheEpochAndTheOptimizer) {
  struct Reader : Callback {
    std::vector<double> scores, rates;
    void on_epoch_end(FitState& fit) override {
      scores.push_back(fit.metric("validation_score"));
      EXPECT_EQ(fit.metric("train_loss"), *fit.history().column("train_loss").back());
      rates.push_back(fit.optimizer().lr());
      fit.optimizer().set_lr(fit.optimizer().lr() / 2);
      EXPECT_THROW(fit.optimizer(1), InvalidArgument);
    }
  } reader;
  Scripted job({7, 5, 6});
  const History history = job.fit({reader});
  EXPECT_EQ(reader.scores, (std::vector<double>{7, 5, 6}));
  EXPECT_EQ(reader.rates, (std::vector<double>{0.1, 0.05, 0.025}));
  EXPECT_EQ(history.column("lr"), (History::Column{0.1, 0.05, 0.025}));
}

TEST(EarlyStopping, EndsTrainingAfterPatienceEpochsThatAreNoBetter) {
  const auto stops_after = [](EarlyStoppingOptions options, std::vector<double> scores) {
    options.monitor = "validation_score";
    if (!options.mode) options.mode = MetricMode::min;
    EarlyStopping early(options);
    Scripted job(std::move(scores));
    const auto epochs = std::int64_t(job.fit({early}).rows());
    EXPECT_EQ(early.stopped_epoch(), epochs < std::int64_t(job.script.size()) ? epochs : 0);
    return std::pair(epochs, early.best_epoch());
  };
  using Epochs = std::pair<std::int64_t, std::int64_t>;  // the epochs trained, and the best one
  EXPECT_EQ(stops_after({.patience = 2}, {5, 4, 4, 3, 3, 3.5, 9, 9}), (Epochs{6, 4}));
  EXPECT_EQ(stops_after({.patience = 1}, {5, 4, 3, 2, 2, 9}), (Epochs{5, 4}));
  EXPECT_EQ(stops_after({.min_delta = 0.5, .patience = 1}, {5, 4, 3.5, 9}), (Epochs{3, 2}));
  EXPECT_EQ(stops_after({.patience = 2, .mode = MetricMode::max}, {1, 3, 2, 2.5, 9}), (Epochs{4, 2}));
  EXPECT_EQ(stops_after({.patience = 3}, {5, 4, 3, 2}), (Epochs{4, 4}));
  EXPECT_EQ(stops_after({.patience = 3}, {5, NAN, 3, 2}), (Epochs{2, 1}));
  EXPECT_EQ(stops_after({.patience = 2, .check_finite = false}, {5, NAN, 3, 2, 1}), (Epochs{5, 5}));
}

TEST(EarlyStopping, KnowsWhichValuesOfLossesAndNamedMetricsAreBetter) {
  for (const char* column : {"train_loss", "validation_loss", "validation_generator_loss", "train_mae",
                             "validation_mean_absolute_error", "train_mse", "train_mean_squared_error"})
    EXPECT_EQ(EarlyStopping({.monitor = column}).best_score(), INFINITY) << column;
  for (const char* column : {"train_accuracy", "validation_accuracy", "validation_binary_accuracy"}) {
    EXPECT_EQ(EarlyStopping({.monitor = column}).best_score(), -INFINITY) << column;
    EXPECT_EQ(ModelCheckpoint({.monitor = column}).best_model_score(), -INFINITY) << column;
    EXPECT_EQ(EarlyStopping({.monitor = column, .mode = MetricMode::min}).best_score(), INFINITY) << column;
  }
}

TEST(EarlyStopping, RefusesAMetricOfWhichNobodySaysWhichValuesAreBetter) {
  const auto refusal = [](const std::string& owner, const std::string& column) {
    return "[" + owner + "] expected .mode = train::MetricMode::min or train::MetricMode::max for " + column +
           ", got none: only losses, accuracy, binary_accuracy, mae and mse have a default";
  };
  for (const char* column : {"validation_score", "accuracy", "lr", "validation_loss_ratio", "validation_f1"}) {
    EXPECT_EQ(thrown<InvalidArgument>([&] { EarlyStopping({.monitor = column}); }), refusal("EarlyStopping", column));
    EXPECT_EQ(thrown<InvalidArgument>([&] { ModelCheckpoint({.monitor = column}); }),
              refusal("ModelCheckpoint", column));
  }
}

TEST(EarlyStopping, SaysWhyTrainingStopped) {
  const auto said = [](EarlyStoppingOptions options, std::vector<double> scores) {
    options.monitor = "validation_score";
    EarlyStopping early(options);
    Scripted job(std::move(scores));
    std::ostringstream out;
    job.fit({early}, {.num_gpus = 0}, {.out = &out});
    const std::string text = out.str();
    const std::size_t begin = text.find("stopped");
    return begin == text.npos ? "" : text.substr(begin);
  };
  EXPECT_EQ(said({.patience = 2, .mode = MetricMode::max}, {0.5, 0.75, 0.75, 0.25, 1}),
            "stopped after epoch 4, step 8: validation_score was not above 0.75, of epoch 2, in 2 epochs\n");
  EXPECT_EQ(
      said({.min_delta = 0.5, .patience = 1, .mode = MetricMode::min}, {5, 4.75, 1}),
      "stopped after epoch 2, step 4: validation_score was not below 5, of epoch 1, by more than 0.5, in 1 epoch\n");
  EXPECT_EQ(said({.patience = 3, .mode = MetricMode::min}, {5, NAN, 3}),
            "stopped after epoch 2, step 4: validation_score is nan, which is not finite\n");
  EXPECT_EQ(said({.patience = 3, .mode = MetricMode::min}, {5, 4, 3}), "");
}

TEST(Callbacks, SayWhyTheyStopTraining) {
  struct Bored : Callback {
    void on_step_end(FitState& fit) override {
      if (fit.step() == 3) fit.stop("enough");
      if (fit.step() == 3) fit.stop("a second reason");
    }
  } bored;
  std::ostringstream out;
  Scripted({1, 2}).fit({bored}, {.num_gpus = 0}, {.out = &out});
  EXPECT_NE(out.str().find("stopped in epoch 2, step 3: enough\n"), std::string::npos) << out.str();
}

TEST(EarlyStopping, BeginsAnewWithTheNextTraining) {
  EarlyStopping early({.monitor = "validation_score", .patience = 1, .mode = MetricMode::min});
  EXPECT_EQ(Scripted({1, 2, 3}).fit({early}).rows(), 2u);
  EXPECT_EQ(Scripted({9, 8, 8, 9}).fit({early}).rows(), 3u);
}

TEST(EarlyStopping, LeavesARunStoppedThatIsResumed) {
  const TemporaryFolder folder;
  const TrainerOptions options = {.num_gpus = 0, .checkpoint = {.folder = folder.path(), .resume = true}};
  EarlyStopping first({.monitor = "validation_score", .patience = 1, .mode = MetricMode::min}), second(first);
  const History whole = Scripted({1, 2, 3}).fit({first}, options);
  Scripted job({1, 2, 3});
  Recorder recorder;
  const History again = job.fit({second, recorder}, options);
  EXPECT_EQ(again.csv(), whole.csv());
  EXPECT_EQ(job.validations, 0);
  EXPECT_EQ(recorder.log, "fit3/4 end3/4 ");
  EXPECT_EQ(second.stopped_epoch(), 2);
}

TEST(ModelCheckpoint, KeepsTheBestModel) {
  const TestDevices devices(2);
  const TemporaryFolder folder;
  struct Keeper : Callback {
    std::vector<StateDict> models;
    void on_epoch_end(FitState& fit) override {
      StateDict& model = models.emplace_back();
      for (const auto& [key, tensor] : fit.module().state_dict()) model.add(key, tensor.detach().clone());
    }
  } keeper;
  ModelCheckpoint best({.path = folder / "best.safetensors", .monitor = "validation_score", .mode = MetricMode::max});
  Scripted job({1, 3, 2.5, 0.1 + 0.2});
  job.fit({keeper, best}, {.num_gpus = 2});
  EXPECT_TRUE(same(load(folder / "best.safetensors"), keeper.models[1]));
  EXPECT_FALSE(same(load(folder / "best.safetensors"), keeper.models[0]));
  EXPECT_EQ(best.best_model_score(), 3);
  EXPECT_EQ(best.best_epoch(), 2);
  const FileMetadata texts = load_metadata(folder / "best.safetensors");
  EXPECT_EQ(texts.at("epoch"), "2");
  EXPECT_EQ(texts.at("step"), "4");
  EXPECT_EQ(texts.at("validation_score"), "3");
  nn::Linear net(2, 1);
  net.load_state_dict(load(best.best_model_path()));
}

TEST(Callbacks, RefuseAMetricThatThereIsNot) {
  EarlyStopping early({.monitor = "validation_accuracy"}), unset;
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              Scripted({1, 2}).fit({early});
            }),
            "[callback] expected an existing value (epoch, step, seconds, lr, train_loss, validation_loss, "
            "validation_score), got validation_accuracy");
  FitJob job({.callbacks = {unset}});
  const auto before = job.parameters();
  EXPECT_EQ(
      thrown<InvalidArgument>([&] { job.fit({.num_gpus = 0, .progress = kSilent}); }),
      "[monitor] the metric is validation_loss, but fit() was given no .validation loader. Give one, or monitor a "
      "metric of training");
  EXPECT_EQ(job.parameters(), before);
}

TEST(Callbacks, RefuseTwoStatesOfOneNameAndStateOfNobody) {
  EarlyStopping one, two;
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              Scripted({1}).fit({one, two});
            }),
            "[trainer] expected callbacks with state under different names, got EarlyStopping(validation_loss) twice");
  const TemporaryFolder folder;
  const TrainerOptions options = {.num_gpus = 0, .checkpoint = {.folder = folder.path(), .resume = true}};
  Scripted({1, 2}).fit({one}, options);
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              Scripted({1, 2}).fit({}, options);
            }),
            "[trainer] the checkpoint has callback state EarlyStopping(validation_loss).best_score, but no callback "
            "with that "
            "name() is in .callbacks. Add it, or start in a new folder");
}

struct StopAt : Callback {
  std::int64_t at;
  explicit StopAt(std::int64_t step) : at(step) {}
  void on_step_end(FitState& fit) override {
    if (fit.step() == at) fit.stop();
  }
};

// An epoch has 10 batches of 5 rows.
TEST(Callbacks, StoppedInTheMiddleOfAnEpochTheRunGoesOnBitForBit) {
  const TestDevices devices(2);
  for (const std::int64_t at : {3, 10, 17}) {
    const TemporaryFolder whole_folder, folder;
    const auto options = [](const TemporaryFolder& where) {
      return TrainerOptions{
          .max_epochs = 3, .log_every = 4, .checkpoint = {.folder = where.path(), .resume = true}, .progress = kSilent};
    };
    FitJob whole({.noise = 0.1, .validates = true});
    const History expected = whole.fit(options(whole_folder));
    StopAt stop(at);
    FitJob stopped({.noise = 0.1, .validates = true, .callbacks = {stop}});
    const History part = stopped.fit(options(folder));
    EXPECT_EQ(*part.column("step").back(), double(at));
    EXPECT_EQ(columns_of(part).contains("validation_loss"), at != 3);
    if (at == 17) {
      EXPECT_FALSE(part.column("validation_loss").back()) << "of an epoch that did not end";
    }
    EXPECT_EQ(CheckpointFolder(folder.path()).latest(), at);
    FitJob resumed({.noise = 0.1, .validates = true});
    EXPECT_EQ(columns_of(resumed.fit(options(folder))), columns_of(expected)) << at;
    EXPECT_EQ(resumed.parameters(), whole.parameters()) << at;
  }
}

// Whichever call of the loss fails, patience, best value, learning rate and best model equal those of an uninterrupted
// run.
TEST(Callbacks, GoOnBitForBitAfterAnyInterruption) {
  const TestDevices devices(2);
  struct Run {
    EarlyStopping early;
    ModelCheckpoint best;
    FitJob job;
    Run(const std::filesystem::path& path, std::int64_t fail_in)
        : early({.monitor = "train_loss", .min_delta = 0.02, .patience = 2}),
          best({.path = path, .monitor = "validation_loss"}),
          job({.batch_size = 12,
               .noise = 0.1,
               .fail_in = fail_in,
               .validates = true,
               .plateau = true,
               .callbacks = {early, best}}) {}
    History fit(const TemporaryFolder& folder) {
      return job.fit({.max_epochs = 8,
                      .log_every = 3,
                      .checkpoint = {.folder = folder.path(), .every_steps = 3, .resume = true},
                      .progress = kSilent});
    }
  };
  const TemporaryFolder whole_folder, best_folder;
  Run whole(best_folder / "whole.safetensors", -1);
  const History expected = whole.fit(whole_folder);
  EXPECT_GT(whole.early.stopped_epoch(), 2);
  EXPECT_LT(whole.early.stopped_epoch(), 8);
  EXPECT_LT(whole.job.optimizer().lr(), 0.05);
  for (std::int64_t fail_in = 0; fail_in < whole.job.calls(); fail_in += 3 * testing::kStride) {
    const TemporaryFolder folder;
    EXPECT_THROW(Run(best_folder / "best.safetensors", fail_in).fit(folder), std::runtime_error);
    Run again(best_folder / "best.safetensors", -1);
    EXPECT_EQ(columns_of(again.fit(folder)), columns_of(expected)) << fail_in;
    EXPECT_EQ(again.job.parameters(), whole.job.parameters()) << fail_in;
    EXPECT_TRUE(same(again.early.state_dict(), whole.early.state_dict())) << fail_in;
    EXPECT_TRUE(same(again.best.state_dict(), whole.best.state_dict())) << fail_in;
    EXPECT_TRUE(same(load(again.best.best_model_path()), load(whole.best.best_model_path()))) << fail_in;
  }
}

// One process of two requests the stop; reports are every four steps.
TEST(Callbacks, OneProcessThatAsksEndsTrainingInAll) {
  const SimulatedDevices devices({.count = 2});
  for (const std::int64_t at : {2, 9}) {
    const TemporaryFolder folder;
    std::vector<History> histories(2);
    const auto failures = in_processes(2, [&](const World& world) {
      StopAt stop(world.rank().value() == 1 ? at : -1);
      TrainerOptions options = {.max_epochs = 3,
                                .devices = {Device::cuda(world.rank().value())},
                                .log_every = 4,
                                .checkpoint = {.folder = folder.path()},
                                .progress = kSilent};
      options.parallel.world = world;
      histories[std::size_t(world.rank().value())] =
          FitJob({.share = Trainer(options).share(), .callbacks = {stop}}).fit(options);
    });
    for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
    EXPECT_EQ(histories[0].csv(), histories[1].csv());
    EXPECT_EQ(*histories[0].column("step").back(), at == 2 ? 5 : 10) << "the row of step 4 is read after step 5";
  }
}

TEST(Callbacks, OfSeveralProcessesStopTogetherAndTheFirstWritesTheBestModel) {
  const SimulatedDevices devices({.count = 2});
  const TemporaryFolder folder;
  std::vector<std::int64_t> stopped(2);
  const auto failures = in_processes(2, [&](const World& world) {
    EarlyStopping early({.monitor = "train_loss", .min_delta = 0.05, .patience = 1});
    ModelCheckpoint best({.path = folder / "best.safetensors", .monitor = "train_loss"});
    TrainerOptions options = {.max_epochs = 20, .devices = {Device::cuda(world.rank().value())}, .progress = kSilent};
    options.parallel.world = world;
    FitJob({.share = Trainer(options).share(), .callbacks = {early, best}}).fit(options);
    stopped[std::size_t(world.rank().value())] = early.stopped_epoch();
  });
  for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
  EXPECT_GT(stopped[0], 0);
  EXPECT_EQ(stopped[0], stopped[1]);
  EXPECT_TRUE(std::filesystem::exists(folder / "best.safetensors"));
}

TEST(ModelCheckpoint, ThatCannotBeWrittenEndsAllProcessesWithItsError) {
  const SimulatedDevices devices({.count = 2});
  const TemporaryFolder folder;
  const auto failures = in_processes(2, [&](const World& world) {
    ModelCheckpoint best({.path = folder / "none" / "best.safetensors", .monitor = "train_loss"});
    TrainerOptions options = {.devices = {Device::cuda(world.rank().value())}, .progress = kSilent};
    options.parallel.world = world;
    FitJob({.share = Trainer(options).share(), .callbacks = {best}}).fit(options);
  });
  for (const std::exception_ptr& failure : failures)
    EXPECT_NE(testing::message_of<IoError>(failure).find("best.safetensors"), std::string::npos);
}

// Rows within the epoch are means over the steps since the previous row.
TEST(Trainer, ReportsAtTheEndOfAnEpochTheMeanOverTheWholeEpoch) {
  nn::Linear net(1, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  std::vector<Tensor> batches = {ones({1, 1}), ones({3, 1}), ones({2, 1}), ones({4, 1}), ones({5, 1})};
  int call = 0;
  const auto loss = [&](auto& model, Tensor& batch, auto&) { return mean(model(batch)) * 0. + double(++call); };
  const History history = Trainer({.num_gpus = 0, .log_every = 2, .progress = kSilent})
                              .fit(net, batches, {.loss = loss, .optimizer = optimizer});
  const auto& losses = history.column("train_loss");
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_DOUBLE_EQ(*losses[0], (1 * 1 + 3 * 2) / 4.);
  EXPECT_DOUBLE_EQ(*losses[1], (2 * 3 + 4 * 4) / 6.);
  EXPECT_DOUBLE_EQ(*losses[2], (1 * 1 + 3 * 2 + 2 * 3 + 4 * 4 + 5 * 5) / 15.);
}

}  // namespace
}  // namespace lockstep::train
