#include <lockstep/ops/join.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include <lockstep/autograd/grad_mode.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

void check_alike(const char* op, std::span<const Tensor> tensors) {
  if (tensors.empty()) throw InvalidArgument(text("[", op, "] expected at least one tensor, got none"));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_same_device(op, tensors[0], tensors[i]);
    if (tensors[i].dtype() != tensors[0].dtype())
      throw DTypeError(text("[", op, "] expected ", tensors[0].dtype(), " as in tensor 0, got ", tensors[i].dtype(),
                            " in tensor ", i));
  }
}

// The size along a dimension, for functions that split a tensor.
std::int64_t size_along(const char* op, const Tensor& tensor, std::int64_t dim) {
  const Shape& sizes = impl_of(op, tensor).sizes;
  if (sizes.empty()) throw ShapeError(text("[", op, "] expected a tensor with dimensions, got a 0-dim one"));
  return sizes[wrap_dim(op, dim, sizes.rank())];
}

// Converts the tensors to their promoted dtype: in autocast regions, 16-bit tensors may be joined with wider ones.
std::vector<Tensor> in_widest(const char* op, std::span<const Tensor> tensors) {
  std::vector<Tensor> alike;
  if (tensors.empty()) return alike;
  DType widest = impl_of(op, tensors[0]).dtype;
  for (const Tensor& tensor : tensors) widest = promote(widest, impl_of(op, tensor).dtype);
  for (const Tensor& tensor : tensors) alike.push_back(tensor.to(widest));
  return alike;
}

// Records the join of parts to the whole. view(whole, i) is part i.
template <class View>
void record_join(const char* node, Tensor& whole, std::span<const Tensor> parts, const View& view) {
  if (!autograd::any_records(parts)) return;
  autograd::record_many(node, std::span(&whole, 1), parts, [view, count = parts.size()](const Tensor& g) {
    Gradients gradients;
    for (std::size_t i = 0; i < count; ++i) gradients.push_back(view(g, i));
    return gradients;
  });
}

// The sizes and the layout of a tensor that is divided.
struct Whole {
  Shape sizes, strides;
};

// An uninitialized tensor like `whole`. If that is a permuted view of dense memory, the new tensor is one too. So the
// gradient of such a view needs no copy to become that of the tensor behind it.
Tensor make_like_whole(DeviceState& device, const Whole& whole, DType dtype) {
  const int rank = whole.sizes.rank();
  std::vector<int> order(std::size_t(rank), 0);  // of the dimensions in memory
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int d) { return whole.strides[d]; });
  Shape strides = Shape::filled(rank, 0);
  std::int64_t step = 1;
  bool is_dense = true;
  for (int i = rank; i-- > 0;) {
    const int d = order[std::size_t(i)];
    is_dense = is_dense && (whole.strides[d] == step || whole.sizes[d] == 1);
    strides[d] = step;
    step *= whole.sizes[d];
  }
  const Tensor memory = make_tensor(device, whole.sizes, dtype);
  return is_dense && step > 0 ? make_view(memory, whole.sizes, strides, 0) : memory;
}

// Joins the gradients of all parts, of which some are undefined, to that of the whole. view(whole, i) is part i.
template <class View>
Tensor joined(const Gradients& given, const Whole& of_whole, const View& view) {
  const Tensor& first = *std::find_if(given.begin(), given.end(), [](const Tensor& g) { return g.defined(); });
  Tensor whole = make_like_whole(*first.impl()->storage->device, of_whole, first.dtype());
  Gradients parts = given;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const NoGrad guard;
    const Tensor place = view(whole, i);
    if (parts[i].defined())
      copy_values(place, parts[i]);
    else
      fill_values(parts[i] = place, 0);
  }
  record_join("Join", whole, parts, view);
  return whole;
}

// The parts of a tensor as views, recorded as one node. (If each part had its own node, backward would make a gradient
// of the whole's size for each part, and sum them.)
template <class View>
std::vector<Tensor> divided(const char* node, const Tensor& whole, std::size_t count, const View& view) {
  std::vector<Tensor> parts;
  parts.reserve(count);
  {
    const NoGrad guard;
    for (std::size_t i = 0; i < count; ++i) parts.push_back(view(whole, i));
  }
  if (count > 0 && records(whole))
    autograd::record_many(node, parts, std::span(&whole, 1),
                          [view, of_whole = Whole{whole.sizes(), whole.strides()}](const Gradients& g) {
                            return Gradients{joined(g, of_whole, view)};
                          });
  return parts;
}

// Returns the function view(whole, i), for parts that have these lengths along dim.
auto view_along(std::int64_t dim, const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> starts;
  std::int64_t from = 0;
  for (const std::int64_t length : lengths) starts.push_back(std::exchange(from, from + length));
  return [dim, lengths, starts](const Tensor& x, std::size_t i) { return x.narrow(dim, starts[i], lengths[i]); };
}

std::vector<Tensor> divided(const char* node, const Tensor& whole, std::int64_t dim,
                            const std::vector<std::int64_t>& lengths) {
  return divided(node, whole, lengths.size(), view_along(dim, lengths));
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, std::int64_t dim) {
  if (const auto region = autocast::wide()) return cat(in_widest("cat", tensors), dim);
  check_alike("cat", tensors);
  Shape sizes = tensors[0].sizes();
  if (sizes.empty()) throw ShapeError("[cat] expected tensors with dimensions, got a 0-dim one: use stack");
  const int d = wrap_dim("cat", dim, sizes.rank());
  std::vector<std::int64_t> lengths;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Shape other = tensors[i].sizes();
    if (other.rank() == sizes.rank()) {
      lengths.push_back(other[d]);
      if (__builtin_add_overflow(total, other[d], &total))
        throw ShapeError(text("[cat] expected sizes whose sum fits 64 bits, got ", other, " in tensor ", i));
      other[d] = sizes[d];
    }
    if (other != sizes)
      throw ShapeError(text("[cat] expected sizes that agree except in dimension ", d, ", got ", tensors[0].sizes(),
                            " in tensor 0 and ", tensors[i].sizes(), " in tensor ", i));
  }
  sizes[d] = total;
  Tensor out = make_tensor(*tensors[0].impl()->storage->device, sizes, tensors[0].dtype());
  const auto view = view_along(d, lengths);
  for (std::size_t i = 0; i < tensors.size(); ++i) copy_values(view(out, i), tensors[i]);
  record_join("Cat", out, tensors, view);
  return out;
}

Tensor stack(std::span<const Tensor> tensors, std::int64_t dim) {
  if (const auto region = autocast::wide()) return stack(in_widest("stack", tensors), dim);
  check_alike("stack", tensors);
  Shape sizes = tensors[0].sizes();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].sizes() != sizes)
      throw ShapeError(text("[stack] expected ", sizes, " as in tensor 0, got ", tensors[i].sizes(), " in tensor ", i));
  const int d = wrap_dim("stack", dim, sizes.rank() + 1);
  sizes.insert(d, std::int64_t(tensors.size()));
  Tensor out = make_tensor(*tensors[0].impl()->storage->device, sizes, tensors[0].dtype());
  const auto view = [d](const Tensor& x, std::size_t i) { return x.select(d, std::int64_t(i)); };
  for (std::size_t i = 0; i < tensors.size(); ++i) copy_values(view(out, i), tensors[i]);
  record_join("Stack", out, tensors, view);
  return out;
}

std::vector<Tensor> chunk(const Tensor& tensor, std::int64_t chunks, std::int64_t dim) {
  if (chunks < 1) throw InvalidArgument(text("[chunk] expected at least one chunk, got ", chunks));
  const std::int64_t size = size_along("chunk", tensor, dim);
  const std::int64_t length = std::max<std::int64_t>(1, size / chunks + (size % chunks != 0));
  std::vector<std::int64_t> lengths;
  for (std::int64_t from = 0; from < size; from += length) lengths.push_back(std::min(length, size - from));
  if (size == 0) lengths.assign(std::size_t(chunks), 0);
  return divided("Chunk", tensor, dim, lengths);
}

std::vector<Tensor> split(const Tensor& tensor, const std::vector<std::int64_t>& sizes, std::int64_t dim) {
  const std::int64_t size = size_along("split", tensor, dim);
  std::int64_t left = size;
  for (const std::int64_t length : sizes) {
    if (length < 0 || length > left)
      throw ShapeError(text("[split] expected sizes that add up to ", size, ", got ", length, " where ", left,
                            " elements are left"));
    left -= length;
  }
  if (left != 0) throw ShapeError(text("[split] expected sizes that add up to ", size, ", got ", size - left));
  return divided("Split", tensor, dim, sizes);
}

std::vector<Tensor> split(const Tensor& tensor, std::int64_t size, std::int64_t dim) {
  const std::int64_t all = size_along("split", tensor, dim);
  if (size < 1) throw ShapeError(text("[split] expected a size of at least 1, got ", size));
  std::vector<std::int64_t> sizes(std::size_t(all / size), size);
  if (all % size || all == 0) sizes.push_back(all % size);
  return split(tensor, sizes, dim);
}

std::vector<Tensor> tensor_split(const Tensor& tensor, std::int64_t sections, std::int64_t dim) {
  if (sections < 1) throw InvalidArgument(text("[tensor_split] expected at least one section, got ", sections));
  const std::int64_t size = size_along("tensor_split", tensor, dim);
  std::vector<std::int64_t> lengths(std::size_t(sections), size / sections);
  for (std::int64_t i = 0; i < size % sections; ++i) ++lengths[std::size_t(i)];
  return divided("TensorSplit", tensor, dim, lengths);
}

std::vector<Tensor> tensor_split(const Tensor& tensor, const std::vector<std::int64_t>& indices, std::int64_t dim) {
  const std::int64_t size = size_along("tensor_split", tensor, dim);
  std::vector<std::int64_t> lengths;
  std::int64_t from = 0;
  bool in_order = true;  // in ascending order the parts do not overlap
  for (const std::int64_t index : indices) {
    const std::int64_t to = std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, size);
    in_order = in_order && to >= from;
    lengths.push_back(to - std::exchange(from, to));
  }
  lengths.push_back(size - from);
  if (in_order) return divided("TensorSplit", tensor, dim, lengths);
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t index : indices) parts.push_back(tensor.slice(dim, std::exchange(start, index), index));
  parts.push_back(tensor.slice(dim, start));
  return parts;
}

std::vector<Tensor> unbind(const Tensor& tensor, std::int64_t dim) {
  const std::int64_t size = size_along("unbind", tensor, dim);
  return divided("Unbind", tensor, std::size_t(size),
                 [dim](const Tensor& x, std::size_t i) { return x.select(dim, std::int64_t(i)); });
}

Tensor vstack(std::span<const Tensor> tensors) {
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors)
    rows.push_back(impl_of("vstack", tensor).sizes.rank() > 1 ? tensor : tensor.reshape({1, -1}));
  return cat(rows, 0);
}
Tensor hstack(std::span<const Tensor> tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors)
    parts.push_back(impl_of("hstack", tensor).sizes.empty() ? tensor.reshape({1}) : tensor);
  return cat(parts, parts.empty() || parts[0].dim() == 1 ? 0 : 1);
}

}  // namespace lockstep
