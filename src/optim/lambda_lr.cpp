#include <lockstep/optim/lambda_lr.h>

#include <algorithm>

#include "core/text.h"

namespace lockstep::optim {

void RateFunctions::check(const char* schedule) const {
  if (functions_.empty() || !std::ranges::all_of(functions_, [](const Function& f) { return bool(f); }))
    throw InvalidArgument(
        text("[", schedule, "] expected lr_lambda to be a function of the epoch, or one for each group, got none"));
}

void RateFunctions::check_groups(const char* schedule, std::size_t groups) const {
  if (functions_.size() != 1 && functions_.size() != groups)
    throw InvalidArgument(text("[", schedule, "] expected one lr_lambda or one for each of ", groups, " groups, got ",
                               functions_.size()));
}

double RateFunctions::at(std::int64_t epoch, std::size_t group) const {
  return functions_[functions_.size() == 1 ? 0 : group](epoch);
}

double RateFunctions::product(std::int64_t epoch, std::size_t group) const {
  if (group >= products_.size()) products_.resize(group + 1);
  Product next = products_[group].epoch <= epoch ? products_[group] : Product{};
  while (next.epoch < epoch) next.value *= at(++next.epoch, group);
  products_[group] = next;
  return next.value;
}

double LambdaLROptions::lr(std::int64_t epoch, double base_lr, std::size_t group) const {
  return base_lr * lr_lambda.at(epoch, group);
}

double MultiplicativeLROptions::lr(std::int64_t epoch, double base_lr, std::size_t group) const {
  return base_lr * lr_lambda.product(epoch, group);
}

}  // namespace lockstep::optim
