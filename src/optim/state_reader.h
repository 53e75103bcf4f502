// Reads a state dict and collects all problems in it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <lockstep/tensor/state_dict.h>

#include "core/text.h"

namespace lockstep::optim {

/// A 0-dim float64 tensor on the CPU.
Tensor number_tensor(double value);

class StateReader {
 public:
  explicit StateReader(const StateDict& state) : state_(state) {}

  bool has(const std::string& key) const { return state_.find(key) != nullptr; }
  const Tensor* any(const std::string& key) const { return state_.find(key); }  ///< Of any shape; null if missing.
  /// The tensor of `key`, of any dtype. If it is missing or has another shape, records a problem and returns null.
  const Tensor* tensor(const std::string& key, const Shape& sizes);
  /// Reads numbers, converted from any dtype. If there is a problem, returns false and leaves `values` alone.
  bool numbers(const std::string& key, std::vector<double>& values);
  bool number(const std::string& key, double& value);
  /// Reads a whole number of at least 0.
  bool integer(const std::string& key, std::int64_t& value);

  template <class... Parts>
  void problem(const Parts&... parts) {
    problems_.push_back(text(parts...));
  }
  /// Throws InvalidArgument naming all problems, and all keys that were not read.
  void finish(const char* op);

 private:
  const StateDict& state_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> problems_;
};

}  // namespace lockstep::optim
