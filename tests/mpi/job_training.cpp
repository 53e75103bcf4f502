// A job that a Trainer does: FOLDER DEVICES whole_state|sharded_state, where the checkpoints are and how many devices
// all processes have together.
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include <lockstep/runtime/mpi.h>
#include <lockstep/runtime/simulation.h>

#include "core/text.h"
#include "mpi/job.h"
#include "parallel/adversaries.h"
#include "train/fit_job.h"

namespace lockstep::testing {
namespace {

// Batches of 6 rows, of which a fourth device has none, and a last one of 4.
void trains(const Arguments& arguments) {
  const World world = mpi::join();
  const int devices = std::atoi(arguments.at(1).c_str()) / world.size();
  require(devices > 0, "as many devices as processes");
  const SimulatedDevices simulated({.count = devices});
  const train::TrainerOptions options = {
      .max_epochs = 12,
      .gradient_clip_val = 0.5,
      .accumulate = 2,
      .log_every = 3,
      .checkpoint = {.folder = arguments.at(0), .every_steps = 2, .keep = 0, .resume = true},
      .progress = kSilent,
      .parallel = {.buckets = {.shard_optimizer_state = arguments.at(2) == "sharded_state"},
                   .world = world,
                   .loss = ProcessLoss::sum}};
  const train::Trainer trainer(options);
  world.barrier("greeting");
  say(world, text("pid ", ::getpid()));
  FitJob job({.batch_size = 6, .validates = true, .norm_and_dropout = true, .share = trainer.share(), .sums = true});
  const train::History history = job.fit(options);
  say(world, text("trained ", history.column("step").back().value(), " steps"));
}

// A model that gets what it has made has the gradients of one process.
void trains_adversaries(const Arguments&) {
  const World world = mpi::join();
  const SimulatedDevices simulated({.count = 2});
  const std::vector<double> one = adversarial_gradients(World(), {0, 1}, 6);
  const std::vector<double> several = adversarial_gradients(world, {0, 1}, 4);
  require(one.size() == several.size(), "as many gradients");
  for (std::size_t i = 0; i < one.size(); ++i)
    require(std::abs(one[i] - several[i]) < 1e-9, text("gradient ", i, ": ", several[i], " is ", one[i]));
}

}  // namespace

const std::map<std::string, Scenario>& training_scenarios() {
  static const std::map<std::string, Scenario> all = {{"trains", trains}, {"trains_adversaries", trains_adversaries}};
  return all;
}

}  // namespace lockstep::testing
