// The elementwise pattern over many tensors on an emulated card: packs of elements if the operands are aligned, else
// single elements; the bits equal the host's in both cases.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include <lockstep/kernels/multi_map.h>
#include "backends/cuda/cuda_backend.h"
#include "cuda/fake/fake_cuda.h"
#include "runtime/registry.h"

namespace lockstep {
namespace {

struct AddScaled {
  template <class T, class U>
  LOCKSTEP_HD void operator()(T& to, const U& from) const {
    to = T(to + 3 * from);
  }
};

// to += 3 from, for tensors that begin `shift` elements after an aligned address.
template <class T, class From>
std::vector<std::vector<float>> results(Device device, std::int64_t shift) {
  std::vector<Tensor> to, from;
  std::vector<MultiRow<2>> rows;
  manual_seed(1);
  for (const std::int64_t count : {1, 3, 8, 4096, 4097, 9001}) {
    const auto make = [&](DType dtype) { return randn({count + shift}).to(dtype).to(device).narrow(0, shift, count); };
    to.push_back(make(kDTypeOf<T>));
    from.push_back(make(kDTypeOf<From>));
  }
  for (std::size_t i = 0; i < to.size(); ++i) rows.push_back({to[i].impl(), from[i].impl()});
  multi_map<T, const From>("add_scaled", 2, AddScaled(), device_state(device), std::span<const MultiRow<2>>(rows));
  std::vector<std::vector<float>> all;
  for (const Tensor& each : to) all.push_back(each.to("cpu").to(kFloat32).to_vector<float>());
  return all;
}

TEST(MultiMap, GivesTheHostsBitsOfAlignedAndOtherTensorsOnACard) {
  fake::machine() = {};
  fake::machine().cards = 1;
  const auto outer = exchange_accelerators(std::make_shared<DeviceSet>(make_cuda_backend({.cards = {0}})));
  for (const std::int64_t shift : {0, 1, 2, 64}) {
    EXPECT_EQ((results<float, float>("cuda:0", shift)), (results<float, float>("cpu", shift))) << shift;
    EXPECT_EQ((results<float, Half>("cuda:0", shift)), (results<float, Half>("cpu", shift))) << shift;
    EXPECT_EQ((results<Half, Half>("cuda:0", shift)), (results<Half, Half>("cpu", shift))) << shift;
    EXPECT_EQ((results<double, BFloat16>("cuda:0", shift)), (results<double, BFloat16>("cpu", shift))) << shift;
  }
  exchange_accelerators(outer);
}

}  // namespace
}  // namespace lockstep
