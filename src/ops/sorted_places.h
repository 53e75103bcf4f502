// The sorted order of a row's elements, for sort, topk and sums by index.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The indices of the `count` least keys of each row along `dim`, in sorted order; equal keys keep their order. keys:
/// int64, dense, at least `count` along `dim`. Returns int64, dense, of the keys' sizes but `count` along `dim`.
Tensor sorted_places(const char* op, const Tensor& keys, int dim, std::int64_t count);

/// On a GPU, returns the permutation that sorts `index` along `dim`; on the host, which does not need it, returns
/// `index` itself.
Tensor order_on_gpu(const char* op, const Tensor& index, int dim);

}  // namespace lockstep
