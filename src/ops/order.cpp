// sort and topk: elements become integer keys of the same order, so that one kernel sorts every dtype; the values
// are then gathered by the places, which gives their gradient.
#include <lockstep/ops/order.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include <lockstep/ops/index.h>

#include "core/text.h"
#include "tensor/kernels/map.h"
#include "tensor/kernels/rows.h"

namespace lockstep {
namespace {

struct OrderKey {
  bool descending;

  template <class C>
  LOCKSTEP_HD std::int64_t operator()(C x) const {
    std::int64_t key = 0;
    if constexpr (std::is_integral_v<C>) {
      key = std::int64_t(x);
    } else if (x != x) {
      key = std::numeric_limits<std::int64_t>::max();
    } else if (x != 0) {  // both zeros are equal
      const auto bits = std::bit_cast<std::int64_t>(double(x));
      key = bits < 0 ? bits ^ std::numeric_limits<std::int64_t>::max() : bits;
    }
    return descending ? ~key : key;
  }
};

// For each row of keys the places of the least ones, in order: as many as `count`. Equal keys stay in the order of
// their places. keys: [outer, length, inner], out: [outer, count, inner], both dense.
struct SortRows {
  const std::int64_t* keys;
  std::int64_t* out;
  std::int64_t rows, inner, length, count;

  LOCKSTEP_HD Row<const std::int64_t> keys_of(std::int64_t r) const {
    return {keys + r / inner * length * inner + r % inner, length, inner};
  }
  LOCKSTEP_HD Row<std::int64_t> places_of(std::int64_t r) const {
    return {out + r / inner * count * inner + r % inner, count, inner};
  }

  void operator()(const KernelContext& context) const {
    host::parallel_for(context, rows, (1 << 14) / length + 1, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) sort(places_of(r), keys_of(r));
    });
  }

  // By counting: a key belongs where as many keys are before it.
  std::int64_t items() const { return rows * length; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const Row<const std::int64_t> row = keys_of(i / length);
    const std::int64_t place = i % length, key = row[place];
    std::int64_t before = 0;
    for (std::int64_t j = 0; j < length; ++j) before += row[j] < key || (row[j] == key && j < place);
    if (before < count) places_of(i / length)[before] = place;
  }

 private:
  static void sort(const Row<std::int64_t>& places, const Row<const std::int64_t>& row) {
    thread_local std::vector<std::pair<std::int64_t, std::int64_t>> entries;
    entries.resize(std::size_t(row.length));
    for (std::int64_t i = 0; i < row.length; ++i) entries[std::size_t(i)] = {row[i], i};
    if (places.length < row.length)
      std::partial_sort(entries.begin(), entries.begin() + places.length, entries.end());
    else
      std::sort(entries.begin(), entries.end());
    for (std::int64_t i = 0; i < places.length; ++i) places[i] = entries[std::size_t(i)].second;
  }
};

std::int64_t length_of(const Tensor& x, int dim) { return x.dim() ? x.sizes()[dim] : 1; }

Tensor places_of(const char* op, const Tensor& x, int dim, std::int64_t count, bool descending) {
  DeviceState& device = *x.impl()->storage->device;
  const Tensor keys = make_tensor(device, x.sizes(), kInt64);
  visit_all(x.dtype(), [&]<class T>() { map<std::int64_t, T>("order_key", 1, OrderKey{descending}, keys, x); });
  Shape sizes = x.sizes();
  if (!sizes.empty()) sizes[dim] = count;
  const Tensor places = make_tensor(device, sizes, kInt64);
  if (places.numel() == 0) return places;
  const std::int64_t length = length_of(x, dim), rows = x.numel() / length;
  std::int64_t inner = 1;
  for (int d = dim + 1; d < x.dim(); ++d) inner *= x.sizes()[d];
  const SortRows kernel{reinterpret_cast<const std::int64_t*>(keys.impl()->data()),
                        reinterpret_cast<std::int64_t*>(places.impl()->data()),
                        rows,
                        inner,
                        length,
                        x.dim() ? count : 1};
  launch(op, 20 * double(x.numel()), places, std::array{&keys}, kernel);
  return places;
}

}  // namespace

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  const int d = wrap_dim("sort", dim, impl_of("sort", x).sizes.rank());
  return places_of("sort", x, d, length_of(x, d), descending);
}

ValuesAndIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  const Tensor places = argsort(x, dim, descending);
  return {gather_elements(x, dim, places), places};
}

ValuesAndIndices topk(const Tensor& x, std::int64_t count, std::int64_t dim, bool greatest) {
  const int d = wrap_dim("topk", dim, impl_of("topk", x).sizes.rank());
  if (count < 0 || count > length_of(x, d))
    throw ShapeError(text("[topk] expected a count from 0 to ", length_of(x, d), ", got ", count));
  if (x.dim() == 0 && count == 0) throw ShapeError("[topk] expected a tensor with dimensions for none of its elements");
  const Tensor places = places_of("topk", x, d, count, greatest);
  return {gather_elements(x, d, places), places};
}

}  // namespace lockstep
