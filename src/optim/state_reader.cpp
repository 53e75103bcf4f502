#include "optim/state_reader.h"

#include <cmath>

#include <lockstep/tensor/creation.h>

namespace lockstep::optim {

Tensor number_tensor(double value) { return from_host(&value, 1, kFloat64, {}, {.dtype = kFloat64}); }

const Tensor* StateReader::tensor(const std::string& key, const Shape& sizes) {
  read_.insert(key);
  const Tensor* const value = state_.find(key);
  if (!value || !value->defined()) {
    problem("missing key \"", key, "\"");
    return nullptr;
  }
  if (value->sizes() == sizes) return value;
  problem("key \"", key, "\" has shape ", value->sizes(), ", expected ", sizes);
  return nullptr;
}

bool StateReader::numbers(const std::string& key, std::vector<double>& values) {
  const Tensor* const value = tensor(key, {std::int64_t(values.size())});
  if (value) values = value->detach().to(Device(), kFloat64).to_vector<double>();
  return value;
}

bool StateReader::number(const std::string& key, double& number) {
  const Tensor* const value = tensor(key, {});
  if (value) number = value->item<double>();
  return value;
}

bool StateReader::integer(const std::string& key, std::int64_t& value) {
  double number = 0;
  if (!this->number(key, number)) return false;
  const bool is_count = number >= 0 && number < 0x1p53 && number == std::floor(number);
  if (is_count)
    value = std::int64_t(number);
  else
    problem("key \"", key, "\" is ", number, ", expected a whole number of at least 0");
  return is_count;
}

void StateReader::finish(const char* op) {
  for (const auto& [key, value] : state_)
    if (!read_.contains(key)) problem("unexpected key \"", key, "\"");
  if (problems_.empty()) return;
  std::string all;
  for (const std::string& each : problems_) all += (all.empty() ? "" : "; ") + each;
  throw InvalidArgument(text("[", op, ".load_state_dict] the state dict does not match this ", op, ": ", all));
}

}  // namespace lockstep::optim
