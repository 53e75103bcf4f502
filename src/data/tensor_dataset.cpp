#include <lockstep/data/tensor_dataset.h>

#include <cstring>
#include <vector>

#include <lockstep/data/datasets.h>
#include <lockstep/ops/join.h>
#include <lockstep/tensor/creation.h>

#include "core/expect.h"
#include "tensor/tensor_impl.h"

namespace lockstep::data::detail {
namespace {

Tensor copy_rows(const Tensor& tensor, std::span<const std::int64_t> indices) {
  Shape sizes = tensor.sizes();
  sizes[0] = std::int64_t(indices.size());
  Tensor batch = empty(sizes, {.dtype = tensor.dtype()});
  const TensorImpl& source = *tensor.impl();
  if (batch.numel() == 0) return batch;
  const auto row_bytes = std::size_t(source.numel / source.sizes[0]) * size_of(source.dtype);
  const std::byte* from = source.data();
  std::byte* to = batch.impl()->data();
  for (const std::int64_t index : indices) {
    std::memcpy(to, from + std::size_t(index) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return batch;
}

}  // namespace

std::int64_t common_leading_size(std::span<const Tensor> tensors) {
  expect(!tensors.empty(), "TensorDataset", "at least one tensor, got none");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    expect(tensors[i].defined(), "TensorDataset", "a tensor, got none at position ", i);
    expect<ShapeError>(tensors[i].dim() > 0, "TensorDataset", "tensors with rows, got a 0-dim tensor at position ", i);
    expect<ShapeError>(tensors[i].size(0) == tensors[0].size(0), "TensorDataset", "tensors of one leading size, got ",
                       tensors[0].sizes(), " at position 0 and ", tensors[i].sizes(), " at position ", i);
  }
  return tensors[0].size(0);
}

Tensor row(const Tensor& tensor, std::int64_t index) {
  check_index("TensorDataset", index, tensor.size(0));
  return tensor.select(0, index);
}

// Contiguous CPU tensors that require no gradient are copied directly, without the operations' overhead.
Tensor rows(const Tensor& tensor, std::span<const std::int64_t> indices) {
  for (const std::int64_t index : indices) check_index("TensorDataset", index, tensor.size(0));
  if (tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.requires_grad()) return copy_rows(tensor, indices);
  std::vector<Tensor> all;
  all.reserve(indices.size());
  for (const std::int64_t index : indices) all.push_back(tensor.select(0, index));
  return stack(all);
}

}  // namespace lockstep::data::detail
