// The part of Trainer::evaluate() and Trainer::predict() that does not depend on types.
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/train/trainer.h>

#include "core/text.h"
#include "train/fit_parts.h"
#include "train/processes.h"

namespace lockstep::train::detail {

struct Evaluating::Kept {
  explicit Kept(nn::ModuleBase& module) : modes(module) { module.eval(); }
  ModesKept modes;
  NoGrad guard;
};

Evaluating::Evaluating(nn::ModuleBase& module) : kept_(std::make_unique<Kept>(module)) {}
Evaluating::~Evaluating() = default;

void check_loader_share(const LoaderHandle& loader, const data::BatchShare& expected) { check_share(loader, expected); }

std::map<std::string, double> means_over_all(const World& world, Metrics& metrics) {
  std::map<std::string, double> means;
  const auto sums = over_all_rows(world, {.training = metrics.sums()}).training;
  for (const Mean& mean : means_of(sums)) means.emplace(mean.name, mean.value);
  if (means.empty()) throw InvalidArgument("[trainer] expected a loader of at least one batch, got none");
  return means;
}

void refuse_prediction(const World& world) {
  throw InvalidArgument(text("[trainer] expected, to predict, a process alone, got one of ", world.size(),
                             ", which has its own rows only: predict with a Trainer without a world"));
}

void refuse_further_objectives() {
  throw InvalidArgument("[find_lr] expected a loss and its optimizer, got further ones in .also");
}

}  // namespace lockstep::train::detail
