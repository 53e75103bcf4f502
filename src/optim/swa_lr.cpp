#include <lockstep/optim/swa_lr.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/text.h"

namespace lockstep::optim {

SWALR::SWALR(Optimizer& optimizer, const SWALROptions& options) : Schedule(optimizer), options_(options) {
  if (options_.anneal_epochs < 0)
    throw InvalidArgument(text("[SWALR] expected anneal_epochs of at least 0, got ", options_.anneal_epochs));
  for (const double rate : options_.swa_lr)
    if (!(rate >= 0)) throw InvalidArgument(text("[SWALR] expected swa_lr of at least 0, got ", rate));
  expect_per_group("SWALR", "swa_lr", options_.swa_lr.size());
  apply();
}

double SWALR::lr_at(std::int64_t epoch, double base_lr, std::size_t group) const {
  const std::int64_t epochs = options_.anneal_epochs;
  const double way = epochs == 0 ? 1 : double(std::min(epoch, epochs)) / double(epochs);
  const double part = options_.anneal_strategy == Anneal::cos ? (1 - std::cos(std::numbers::pi * way)) / 2 : way;
  return options_.swa_lr.of(group) * part + base_lr * (1 - part);
}

}  // namespace lockstep::optim
