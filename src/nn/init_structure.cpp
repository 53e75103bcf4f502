// Structured initial values, computed on the CPU in float64 from the caller's random numbers.
#include <lockstep/nn/init.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"

namespace lockstep::nn::init {
namespace {

void check_floating_weight(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype())) throw DTypeError(text("[", op, "] expected a floating dtype, got ", x.dtype()));
}

void check_matrix(const char* op, const Tensor& x) {
  check_floating_weight(op, x);
  if (x.dim() != 2) throw ShapeError(text("[", op, "] expected a matrix, got ", x.sizes()));
}

// Copies values in row-major order.
void fill_with(Tensor& tensor, const std::vector<double>& values) {
  const NoGrad guard;
  tensor.copy_(
      from_host(values.data(), values.size(), kFloat64, tensor.sizes()).to(tensor.dtype()).to(tensor.device()));
}

std::vector<double> normal_numbers(std::int64_t count) {
  return randn({count}, {.dtype = kFloat64}).to_vector<double>();
}

// Makes the columns of a tall matrix [rows, columns] orthonormal, in order, by two passes of modified Gram-Schmidt. The
// diagonal of R in the decomposition A = QR is positive, so that Q is uniformly distributed (Mezzadri 2007).
void make_orthonormal(std::vector<double>& a, std::int64_t rows, std::int64_t columns) {
  const auto at = [&](std::int64_t r, std::int64_t c) -> double& { return a[std::size_t(r * columns + c)]; };
  for (std::int64_t c = 0; c < columns; ++c) {
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t before = 0; before < c; ++before) {
        double along = 0;
        for (std::int64_t r = 0; r < rows; ++r) along += at(r, before) * at(r, c);
        for (std::int64_t r = 0; r < rows; ++r) at(r, c) -= along * at(r, before);
      }
    double squares = 0;
    for (std::int64_t r = 0; r < rows; ++r) squares += at(r, c) * at(r, c);
    for (std::int64_t r = 0; r < rows; ++r) at(r, c) /= std::sqrt(squares);
  }
}

}  // namespace

void eye_(Tensor& matrix) {
  check_matrix("eye_", matrix);
  std::vector<double> values(std::size_t(matrix.numel()));
  for (std::int64_t i = 0; i < std::min(matrix.size(0), matrix.size(1)); ++i)
    values[std::size_t(i * matrix.size(1) + i)] = 1;
  fill_with(matrix, values);
}

void dirac_(Tensor& weight, std::int64_t groups) {
  check_floating_weight("dirac_", weight);
  if (weight.dim() < 3 || weight.dim() > 5)
    throw ShapeError(text("[dirac_] expected a weight [out, in, ...] of 3 to 5 dimensions, got ", weight.sizes()));
  if (groups < 1 || weight.size(0) % groups != 0)
    throw InvalidArgument(text("[dirac_] expected groups that divide ", weight.size(0), ", got ", groups));
  const std::int64_t out = weight.size(0) / groups, in = weight.size(1);
  std::int64_t kernel = 1, middle = 0;
  for (int d = 2; d < weight.dim(); ++d) {
    middle = middle * weight.size(d) + weight.size(d) / 2;
    kernel *= weight.size(d);
  }
  std::vector<double> values(std::size_t(weight.numel()));
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t i = 0; i < std::min(out, in); ++i)
      values[std::size_t(((g * out + i) * in + i) * kernel + middle)] = 1;
  fill_with(weight, values);
}

void orthogonal_(Tensor& weight, double gain) {
  check_floating_weight("orthogonal_", weight);
  if (weight.dim() < 2) throw ShapeError(text("[orthogonal_] expected at least 2 dimensions, got ", weight.sizes()));
  if (weight.numel() == 0) return;
  const std::int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const std::int64_t tall = std::max(rows, columns), few = std::min(rows, columns);
  std::vector<double> basis = normal_numbers(weight.numel());
  make_orthonormal(basis, tall, few);
  std::vector<double> values(basis.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      values[std::size_t(r * columns + c)] = gain * basis[std::size_t(rows < columns ? c * few + r : r * few + c)];
  fill_with(weight, values);
}

void sparse_(Tensor& matrix, double sparsity, double standard_deviation) {
  check_matrix("sparse_", matrix);
  if (!(sparsity >= 0 && sparsity <= 1))
    throw InvalidArgument(text("[sparse_] expected a sparsity from 0 to 1, got ", sparsity));
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  std::vector<double> values = normal_numbers(matrix.numel());
  for (double& value : values) value *= standard_deviation;
  const auto zeros = std::int64_t(std::ceil(sparsity * double(rows)));
  for (std::int64_t c = 0; c < columns; ++c) {
    const std::vector<std::int64_t> order = randperm(rows).to_vector<std::int64_t>();
    for (std::int64_t i = 0; i < zeros; ++i) values[std::size_t(order[std::size_t(i)] * columns + c)] = 0;
  }
  fill_with(matrix, values);
}

void trunc_normal_(Tensor& tensor, double mean, double standard_deviation, double low, double high) {
  check_floating_weight("trunc_normal_", tensor);
  if (!(low < high) || std::isinf(low) || std::isinf(high))
    throw InvalidArgument(text("[trunc_normal_] expected finite low < high, got ", low, " and ", high));
  // Inverts the distribution function by bisection, which, unlike rejection, takes the same time for any bounds.
  const auto below = [&](double x) { return std::erfc(-(x - mean) / standard_deviation / std::sqrt(2)) / 2; };
  const double first = below(low), last = below(high);
  std::vector<double> values = rand({tensor.numel()}, {.dtype = kFloat64}).to_vector<double>();
  for (double& value : values) {
    const double wanted = first + value * (last - first);
    double from = low, to = high;
    for (int i = 0; i < 60; ++i) (below((from + to) / 2) < wanted ? from : to) = (from + to) / 2;
    value = from;
  }
  fill_with(tensor, values);
}

void zeros_(Tensor& tensor) { constant_(tensor, 0); }
void ones_(Tensor& tensor) { constant_(tensor, 1); }

}  // namespace lockstep::nn::init
