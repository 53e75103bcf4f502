#include "ops/sorted_places.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <lockstep/kernels/row_team.h>
#include "cpu/parallel.h"
#include "kernels/launch.h"

namespace lockstep {
namespace {

// The kernel of sorted_places(): out = the indices of each row's `count` least keys, in sorted order. keys: [outer,
// length, inner], out: [outer, count, inner], both dense.
struct SortRows {
  static constexpr std::int64_t kRun = 32;  // keys that a GPU sorts by counting

  const std::int64_t* keys;
  std::int64_t* out;
  std::int64_t rows, inner, length, count;
  std::int64_t* scratch;  // [buffers(length), rows, length] on a GPU; else null

  LOCKSTEP_HD RowOf<const std::int64_t> keys_of(std::int64_t r) const {
    return {keys + r / inner * length * inner + r % inner, length, inner};
  }
  LOCKSTEP_HD RowOf<std::int64_t> places_of(std::int64_t r) const {
    return {out + r / inner * count * inner + r % inner, count, inner};
  }

  void operator()(const KernelContext& context) const {
    host::parallel_for(context, rows, (1 << 14) / length + 1, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) sort(places_of(r), keys_of(r));
    });
  }

  // A GPU merges sorted runs. The first pass sorts runs of kRun keys; every later pass doubles their length. A key's
  // new position is the number of smaller keys in its own run plus the number in the neighbouring run.
  static int passes(std::int64_t length) {
    int passes = 1;
    for (std::int64_t run = kRun; run < length; run *= 2) ++passes;
    return passes;
  }
  int passes() const { return passes(length); }
  static int buffers(std::int64_t length) { return std::min(passes(length) - 1, 2); }
  std::int64_t items() const { return rows * length; }
  LOCKSTEP_HD void item(int pass, bool last, std::int64_t i) const {
    const std::int64_t r = i / length, at = i % length;
    const RowOf<const std::int64_t> row = keys_of(r);
    const std::int64_t* const from = pass == 0 ? nullptr : after(pass - 1, r);
    const std::int64_t place = pass == 0 ? at : from[at];
    const std::int64_t to = pass == 0 ? counted(row, place) : merged(row, from, at, place, kRun << (pass - 1));
    if (!last)
      after(pass, r)[to] = place;
    else if (to < count)
      places_of(r)[to] = place;
  }

 private:
  /// The indices of row r after a pass that is not the last.
  LOCKSTEP_HD std::int64_t* after(int pass, std::int64_t r) const { return scratch + (pass % 2 * rows + r) * length; }

  LOCKSTEP_HD static bool before(const RowOf<const std::int64_t>& row, std::int64_t a, std::int64_t b) {
    return row[a] < row[b] || (row[a] == row[b] && a < b);
  }

  LOCKSTEP_HD static std::int64_t counted(const RowOf<const std::int64_t>& row, std::int64_t place) {
    const std::int64_t first = place / kRun * kRun, end = first + kRun < row.length ? first + kRun : row.length;
    std::int64_t to = first;
    for (std::int64_t other = first; other < end; ++other) to += before(row, other, place);
    return to;
  }

  LOCKSTEP_HD static std::int64_t merged(const RowOf<const std::int64_t>& row, const std::int64_t* from,
                                         std::int64_t at, std::int64_t place, std::int64_t run) {
    const std::int64_t mine = at / run, beside = (mine ^ 1) * run;
    std::int64_t low = beside < row.length ? beside : row.length;
    std::int64_t high = beside + run < row.length ? beside + run : row.length;
    const std::int64_t first = low;
    while (low < high) {  // keys below `low` are smaller than the key, those from `high` on are not
      const std::int64_t middle = low + (high - low) / 2;
      if (before(row, from[middle], place))
        low = middle + 1;
      else
        high = middle;
    }
    return mine / 2 * 2 * run + at % run + (low - first);
  }

  static void sort(const RowOf<std::int64_t>& places, const RowOf<const std::int64_t>& row) {
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

}  // namespace

Tensor sorted_places(const char* op, const Tensor& keys, int dim, std::int64_t count) {
  DeviceState& device = *keys.impl()->storage->device;
  Shape sizes = keys.sizes();
  const std::int64_t length = sizes.empty() ? 1 : sizes[dim];
  if (!sizes.empty()) sizes[dim] = count;
  const Tensor places = make_tensor(device, sizes, kInt64);
  if (places.numel() == 0) return places;
  std::int64_t inner = 1;
  for (int d = dim + 1; d < sizes.rank(); ++d) inner *= sizes[d];
  Tensor scratch;
  if (const int buffers = SortRows::buffers(length); buffers > 0 && device.backend.launches_grids())
    scratch = make_tensor(device, {buffers, keys.numel()}, kInt64);
  const auto data = [](const Tensor& x) { return reinterpret_cast<std::int64_t*>(x.impl()->data()); };
  const SortRows kernel{data(keys),
                        data(places),
                        keys.numel() / length,
                        inner,
                        length,
                        sizes.empty() ? 1 : count,
                        scratch.defined() ? data(scratch) : nullptr};
  launch(op, 20 * double(keys.numel()), places, std::array{&keys}, kernel);
  return places;
}

Tensor order_on_gpu(const char* op, const Tensor& index, int dim) {
  if (!index.impl()->storage->device->backend.launches_grids()) return index;
  return sorted_places(op, index.contiguous(), dim, index.dim() ? index.sizes()[dim] : 1);
}

}  // namespace lockstep
