// A job that trains with a Trainer: FOLDER DEVICES none|optimizer_state|parameters: the folder of the checkpoints, the
// number of devices of all processes together, and what these divide between them.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include <lockstep/distributed/mpi.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/deferred_init.h>

#include "core/text.h"
#include "models/resnet.h"
#include "mpi/job.h"
#include "parallel/adversaries.h"
#include "support/ending_processes.h"
#include "train/fit_job.h"
#include "train/small_job.h"

namespace lockstep::testing {
namespace {

// Batches of 6 rows, which leave a fourth device without any, and a last batch of 4.
void trains(const Arguments& arguments) {
  const World world = mpi::join();
  const int devices = std::atoi(arguments.at(1).c_str()) / world.size();
  require(devices > 0, "as many devices as processes");
  const SimulatedDevices simulated({.count = devices});
  Shard shard = Shard::none;
  while (text(shard) != arguments.at(2)) shard = Shard(int(shard) + 1);
  const train::TrainerOptions options = {
      .max_epochs = 12,
      .gradient_clip_val = 0.5,
      .accumulate = 2,
      .log_every = 3,
      .checkpoint = {.folder = arguments.at(0), .every_steps = 2, .keep = 0, .resume = true},
      .progress = kSilent,
      .parallel = {.shard = shard,
                   .world = world,
                   .loss = ProcessLoss::sum}};
  const train::Trainer trainer(options);
  world.barrier("greeting");
  say(world, text("pid ", ::getpid()));
  FitJob job(
      {.batch_size = 6, .validates = true, .norm_and_dropout = true, .share = trainer.share(), .uses_sum_loss = true});
  const train::History history = job.fit(options);
  say(world, text("trained ", history.column("step").back().value(), " steps"));
}

// A model that gets its own output as input has the gradients of one process.
void trains_adversaries(const Arguments&) {
  const World world = mpi::join();
  const SimulatedDevices simulated({.count = 2});
  const std::vector<double> one = adversarial_gradients(World(), {0, 1}, 6);
  const std::vector<double> several = adversarial_gradients(world, {0, 1}, 4);
  require(one.size() == several.size(), "as many gradients");
  for (std::size_t i = 0; i < one.size(); ++i)
    require(std::abs(one[i] - several[i]) < 1e-9, text("gradient ", i, ": ", several[i], " is ", one[i]));
}

// DEVICES ROWS BACKWARDS: a model with many batch norms over all rows, some on branches. Its gradients are those of one
// device with all rows, every time, however the devices are delayed.
void trains_resnet(const Arguments& arguments) {
  const World world = mpi::join();
  const int devices = std::stoi(arguments.at(0)), backwards = std::stoi(arguments.at(2));
  const std::int64_t rows = std::stoll(arguments.at(1));
  const SimulatedDevices simulated(
      {.count = devices, .seed = std::uint64_t(world.rank().value()), .max_delay_us = 300});
  const auto model_of = [](const DataParallelOptions& options) {
    manual_seed(1);
    ResNet18<nn::SyncBatchNorm> net(10, 4);
    net.to(kFloat64);
    return DataParallel(std::move(net), options);
  };
  auto one = model_of({.device_ids = {0}}), model = model_of({.world = world});
  const Tensor images = randn({rows, 3, 8, 8}, kFloat64), target = randint(0, 10, {rows});
  const auto backward = [](auto& of, const Tensor& x, const Tensor& y) {
    for (Tensor& p : of.parameters()) p.set_grad({});
    nn::functional::cross_entropy(of(x), y.to(of.device())).backward();
    std::vector<Tensor> all;
    for (const Tensor& p : of.parameters()) all.push_back(p.grad().to(Device()));
    return all;
  };
  const std::vector<Tensor> expected = backward(one, images, target);
  const data::RowRange own = model.share().rows(rows);
  int wrong = 0;
  double most = 0;
  for (int i = 0; i < backwards; ++i) {
    const std::vector<Tensor> got =
        backward(model, images.narrow(0, own.first, own.count), target.narrow(0, own.first, own.count));
    double error = 0;
    for (std::size_t k = 0; k < got.size(); ++k)
      error = std::max(error, (max(abs(got[k] - expected[k])) / (max(abs(expected[k])) + 1e-6)).item<double>());
    most = std::max(most, error);
    wrong += !(error < 1e-8);
  }
  say(world, text(wrong, " of ", backwards, " backwards wrong, greatest relative error ", most));
  require(wrong == 0, "gradients of one device");
}

// WHAT SEED: the last process does WHAT differently, which all processes refuse. Messages are delayed at random.
void disagrees(const Arguments& arguments) {
  const std::string& what = arguments.at(0);
  const World joined = mpi::join();
  const World world(std::make_shared<DelayedTransport>(joined.transport(), std::stoul(arguments.at(1)),
                                                       std::chrono::microseconds(20'000)));
  const bool is_last = world.rank().value() == world.size() - 1;
  const SimulatedDevices simulated({.count = 2});
  if (what == "model") DataParallel model(nn::Linear(2, is_last ? 4 : 3), {.device_ids = {0}, .world = world});
  SmallJob([&](const World&, JobSettings& settings) {
    settings.trainer.parallel.world = world;
    settings.trainer.devices = {Device::cuda(0)};
    if (what == "max_epochs" && is_last) settings.trainer.max_epochs = 4;
    if (what == "devices" && is_last) settings.trainer.devices.push_back(Device::cuda(1));
    if (what == "batches" && is_last) settings.rows = 24;
    if (what == "loss" && world.is_first()) settings.factor = [](std::int64_t) { return NAN; };
    if (what == "rate" && is_last) settings.lr = 0.2;
    if (what == "disk") settings.trainer.checkpoint.folder = "/dev/full/run";
  })(joined);
}

// Models that have no memory yet; also with other values in the other processes. All get those of the first process.
void makes_deferred_models(const Arguments&) {
  const World world = mpi::join();
  const SimulatedDevices simulated({.count = 2});
  manual_seed(1);
  const StateDict expected = nn::Linear(300, 300).state_dict();
  for (const bool differ : {false, true})
    for (const Shard shard : {Shard::none, Shard::parameters}) {
      manual_seed(differ ? std::uint64_t(world.rank().value()) + 1 : 1);
      std::optional<DeferredInit> guard(std::in_place);
      nn::Linear linear(300, 300);
      guard.reset();
      const DataParallel model(std::move(linear), {.shard = shard, .world = world});
      const StateDict state = model.module().state_dict();
      for (const auto& [key, value] : expected)
        require(state.find(key)->to(Device()).to_vector<float>() == value.to_vector<float>(), text(key, ' ', differ));
    }
  say(world, "made");
}

}  // namespace

const std::map<std::string, Scenario>& training_scenarios() {
  static const std::map<std::string, Scenario> all = {{"trains", trains},
                                                      {"trains_adversaries", trains_adversaries},
                                                      {"trains_resnet", trains_resnet},
                                                      {"makes_deferred_models", makes_deferred_models},
                                                      {"disagrees", disagrees}};
  return all;
}

}  // namespace lockstep::testing
