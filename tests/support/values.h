// The elements of any tensor on the host, and tensors of several layouts.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::testing {

/// Returns all elements in row-major order, from any device and dtype.
inline std::vector<double> values(const Tensor& tensor) {
  return tensor.detach().to(Device(), kFloat64).to_vector<double>();
}

/// 1 to `max_rank` dimensions of 1 to `max_size` each.
inline Shape random_sizes(std::mt19937& random, int max_rank = 4, std::int64_t max_size = 5) {
  Shape sizes;
  for (auto rank = 1 + random() % unsigned(max_rank); rank > 0; --rank)
    sizes.push_back(1 + std::int64_t(random() % unsigned(max_size)));
  return sizes;
}

/// Returns the same values with gaps between the elements of every dimension.
inline Tensor with_gaps(const Tensor& x) {
  Shape room = x.sizes();
  for (int d = 0; d < room.rank(); ++d) room[d] = 2 * room[d] + 1;
  Tensor view = full(room, 77, {.dtype = x.dtype(), .device = x.device()});
  for (int d = 0; d < x.dim(); ++d) view = view.slice(d, 1, room[d], 2);
  view.copy_(x.detach());
  return view;
}

/// Returns the same values with the dimensions in reverse order in memory.
inline Tensor reversed_in_memory(const Tensor& x) {
  Shape reversed;
  for (int d = x.dim(); d-- > 0;) reversed.push_back(d);
  return x.detach().permute(reversed).contiguous().permute(reversed);
}

}  // namespace lockstep::testing
