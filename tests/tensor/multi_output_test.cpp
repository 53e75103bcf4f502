// The kernel pattern with several outputs, on the CPU and on a device: dense, strided, broadcast, and in 16 bits.
#include "kernels/map/multi_output.h"

#include <gtest/gtest.h>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

// product = a b; total += a.
struct ProductAndTotal {
  template <class T>
  LOCKSTEP_HD void operator()(T& product, T& total, const T& a, const T& b) const {
    product = a * b;
    total += a;
  }
};

// Integers that every dtype holds, so that results are exact.
template <class T>
void expect_both_outputs(DType dtype, Device device, bool strided, bool broadcast) {
  const Shape sizes = {7, 65};
  const auto numbers = [&](const Shape& shape) { return randint(-3, 4, shape).to(device, dtype); };
  const auto laid_out = [&](const Tensor& x) { return strided ? x.transpose(0, 1).contiguous().transpose(0, 1) : x; };
  const Tensor a = laid_out(numbers(sizes)), b = numbers(broadcast ? Shape{65} : sizes);
  const Tensor total = laid_out(numbers(sizes)), product = zeros(sizes, {.dtype = dtype, .device = device});
  const auto x = values(a), y = values(b), before = values(total);
  multi_output<T, T, const T, const T>("product_and_total", 2, ProductAndTotal(), product, total, a, b);
  const auto products = values(product), totals = values(total);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(products[i], x[i] * y[i % y.size()]) << "element " << i;
    ASSERT_EQ(totals[i], before[i] + x[i]) << "element " << i;
  }
}

// Not on a GPU: the tests have no device form of this kernel. The tests of fused cells cover the pattern's device form.
TEST(MultiOutput, WritesEachOutputOfEachElement) {
  SimulatedDevices devices({.count = 1});
  for (const Device device : {Device("cpu"), Device("cuda:0")})
    for (const bool strided : {false, true})
      for (const bool broadcast : {false, true}) {
        expect_both_outputs<float>(kFloat32, device, strided, broadcast);
        expect_both_outputs<double>(kFloat64, device, strided, broadcast);
        expect_both_outputs<Half>(kFloat16, device, strided, broadcast);
        expect_both_outputs<BFloat16>(kBFloat16, device, strided, broadcast);
      }
}

}  // namespace
}  // namespace lockstep
