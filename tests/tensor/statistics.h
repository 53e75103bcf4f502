// Values of tensors as numbers, and what tests of random ones measure on them.
#pragma once

#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

inline std::vector<double> values_of(const Tensor& tensor) { return tensor.to(Device(), kFloat64).to_vector<double>(); }

struct Moments {
  double mean = 0, variance = 0, kurtosis = 0;
};

inline Moments moments_of(const std::vector<double>& values) {
  const double n = double(values.size());
  Moments m;
  for (const double value : values) m.mean += value / n;
  for (const double value : values) {
    const double square = (value - m.mean) * (value - m.mean);
    m.variance += square / n;
    m.kurtosis += square * square / n;
  }
  m.kurtosis /= m.variance * m.variance;
  return m;
}

}  // namespace lockstep
