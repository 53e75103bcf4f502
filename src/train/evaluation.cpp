// The part of Trainer::evaluate() and Trainer::predict() that does not depend on types.
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/train/trainer.h>

#include "core/text.h"
#include "nn/training_mode_guard.h"
#include "train/fit_parts.h"
#include "train/processes.h"

namespace lockstep::train::detail {

struct EvalModeGuard::State {
  explicit State(nn::ModuleBase& module) : modes(module) { module.eval(); }
  nn::TrainingModeGuard modes;
  NoGrad guard;
};

EvalModeGuard::EvalModeGuard(nn::ModuleBase& module) : state_(std::make_unique<State>(module)) {}
EvalModeGuard::~EvalModeGuard() = default;

void check_loader_share(const LoaderHandle& loader, const data::BatchShare& expected) { check_share(loader, expected); }

std::map<std::string, double> means_over_all(const World& world, Metrics& metrics) {
  std::map<std::string, double> means;
  const auto sums = over_all_rows(world, {.training = metrics.sums()}).training;
  for (const Mean& mean : means_of(sums)) means.emplace(mean.name, mean.value);
  if (means.empty()) throw InvalidArgument("[trainer] expected a loader of at least one batch, got none");
  return means;
}

void refuse_prediction(const World& world) {
  throw InvalidArgument(text("[trainer] expected a single process for predict(), got ", world.size(),
                             ", each of which has only its own rows: predict with a Trainer without a world"));
}

void refuse_further_objectives() {
  throw InvalidArgument("[find_lr] expected one loss and its optimizer, got further ones in .also: leave it empty");
}

}  // namespace lockstep::train::detail
