// The order of a row's elements, by which sort, topk and sums by index go.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The places of the `count` least keys of each row along `dim`, in order; equal keys stay in the order of their
/// places. keys: int64, dense, at least `count` along `dim`. Returns int64, dense, of the keys' sizes but `count` along
/// `dim`.
Tensor sorted_places(const char* op, const Tensor& keys, int dim, std::int64_t count);

/// For kernels that a GPU runs on sorted indices and the host does not: all places in order; on the host the indices.
Tensor order_on_gpu(const char* op, const Tensor& index, int dim);

}  // namespace lockstep
