// Values of tensors as doubles, and their moments, for tests of random tensors.
#pragma once

#include <span>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

inline std::vector<double> values_of(const Tensor& tensor) { return tensor.to(Device(), kFloat64).to_vector<double>(); }

struct Moments {
  double mean = 0, variance = 0, kurtosis = 0;
};

/// Loops over pointers, as all tests of random numbers do: iterators take several times as long without the optimizer.
inline Moments moments_of(std::span<const double> values) {
  const double n = double(values.size());
  const double *const begin = values.data(), *const end = begin + values.size();
  double mean = 0, variance = 0, kurtosis = 0;
  for (const double* value = begin; value != end; ++value) mean += *value;
  mean /= n;
  for (const double* value = begin; value != end; ++value) {
    const double square = (*value - mean) * (*value - mean);
    variance += square;
    kurtosis += square * square;
  }
  Moments m = {mean, variance / n, kurtosis / n};
  m.kurtosis /= m.variance * m.variance;
  return m;
}

}  // namespace lockstep
