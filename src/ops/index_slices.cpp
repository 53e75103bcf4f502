#include "ops/index_slices.h"

#include <cstring>

#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/walk.h>
#include <lockstep/kernels/visit.h>
#include "cpu/parallel.h"
#include "kernels/launch.h"
#include "ops/record.h"
#include "ops/sorted_places.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

// The sizes of dense tensors [outer, places, inner].
struct Slices {
  std::int64_t outer = 1, inner = 1;
  std::int64_t places = 0;  // size of the indexed dimension
  std::int64_t indices = 0;
};

using Elements16 = gpu::Pack<std::uint64_t, 2>;  // 16 bytes of elements that are copied without arithmetic

Slices slices_of(const Shape& sizes, int dim, std::int64_t places, std::int64_t indices) {
  Slices slices{1, 1, places, indices};
  for (int i = 0; i < dim; ++i) slices.outer *= sizes[i];
  for (int i = dim + 1; i < sizes.rank(); ++i) slices.inner *= sizes[i];
  return slices;
}

// The kernel of gather_slices(): copies whole slices. T: an integer of the elements' size, or a 16-byte pack of them.
template <class T>
struct GatherSlices {
  Slices slices;
  gpu::Divisor inner, indices;  // slices.inner, slices.indices
  const T* from;
  const std::int64_t* index;
  T* to;
  std::int64_t ignored;

  // The source of the slice at place i of the result; null for zeros.
  LOCKSTEP_HD const T* source(std::int64_t i) const {
    const std::int64_t outer = indices.quotient(i), place = index[i - outer * slices.indices];
    if (place < 0 || place >= slices.places || place == ignored) return nullptr;
    return from + (outer * slices.places + place) * slices.inner;
  }

  void operator()(const KernelContext& context) const {
    constexpr std::int64_t kGrainBytes = 1 << 16;
    const std::size_t slice_bytes = std::size_t(slices.inner) * sizeof(T);
    const std::int64_t grain = kGrainBytes / std::int64_t(slice_bytes + 1) + 1;
    host::vectorized_for(context, slices.outer * slices.indices, grain,
                         [this, slice_bytes](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             if (const T* const slice = source(i))
                               std::memcpy(to + i * slices.inner, slice, slice_bytes);
                             else
                               std::memset(to + i * slices.inner, 0, slice_bytes);
                           }
                         });
  }

  std::int64_t items() const { return slices.outer * slices.indices * slices.inner; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::int64_t slice = inner.quotient(i);
    const T* const element_source = source(slice);
    to[i] = element_source ? element_source[i - slice * slices.inner] : T{};
  }
};

// Each element of the result belongs to one task, so that no two tasks add to it at once. On the host a task goes
// through all indices. On a GPU the indices are sorted and cut into segments: a thread adds the slices of one place
// within its segment; then the thread of the first segment of a place that continues into further segments adds their
// partial sums, so that a place with many indices makes no long chain. Each such thread handles kPack neighbouring
// elements of a slice.
template <class T, int kPack>
struct ScatterAddSlices {
  using C = ComputeType<T>;
  using Sums = gpu::Pack<C, kPack>;
  static constexpr std::int64_t kBlock = 64;    // elements of a slice in one task
  static constexpr std::int64_t kSegment = 32;  // indices in a segment

  Slices slices;
  const T* from;
  const std::int64_t* index;
  const std::int64_t* order;  // the sorted order of the indices, on a GPU
  C* to;                      // zeros
  // On a GPU, [outer, segments, 2, inner]: each segment's sums of the place that continues from the segment before, and
  // of the place that continues in the next segment.
  C* partial;
  std::int64_t ignored;
  gpu::Divisor by_packs, by_segments;  // the numbers of packs in a slice, and of segments

  static std::int64_t segments_of(const Slices& slices) { return (slices.indices + kSegment - 1) / kSegment; }

  void operator()(const KernelContext& context) const {
    const std::int64_t blocks = (slices.inner + kBlock - 1) / kBlock;
    const std::int64_t grain = (1 << 15) / (slices.indices * std::min(kBlock, slices.inner) + 1) + 1;
    host::vectorized_for(context, slices.outer * blocks, grain, [this, blocks](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t first = b % blocks * kBlock;
        add(b / blocks, first, std::min(kBlock, slices.inner - first));
      }
    });
  }

  int passes() const { return 2; }
  std::int64_t items() const { return slices.outer * segments_of(slices) * by_packs.divisor(); }
  LOCKSTEP_HD void item(int, bool last, std::int64_t i) const {
    const std::int64_t row = by_packs.quotient(i), element = (i - row * by_packs.divisor()) * kPack;
    const std::int64_t outer = by_segments.quotient(row), segment = row - outer * by_segments.divisor();
    const std::int64_t begin = segment * kSegment;
    const std::int64_t end = begin + kSegment < slices.indices ? begin + kSegment : slices.indices;
    const auto part = [&](std::int64_t of, int which) {
      return partial + ((outer * by_segments.divisor() + of) * 2 + which) * slices.inner + element;
    };
    const auto target = [&](std::int64_t place) {
      return to + (outer * slices.places + place) * slices.inner + element;
    };
    const auto add = [](Sums& sum, const auto& more) {
      gpu::unrolled<kPack>([&](int k) { sum.values[k] += C(more.values[k]); });
    };
    if (last) {
      const std::int64_t place = place_at(end - 1);
      if (is_ignored(place) || !goes_on(place, end) || (place_at(begin) == place && comes_in(place, begin))) return;
      Sums sum = gpu::load_pack<kPack>(part(segment, 1));
      for (std::int64_t next = segment + 1; next < by_segments.divisor() && place_at(next * kSegment) == place; ++next)
        add(sum, gpu::load_pack<kPack>(part(next, 0)));
      return gpu::store_pack(target(place), sum);
    }
    for (std::int64_t next = begin; next < end;) {
      const std::int64_t first = next, place = place_at(first);
      Sums sum = {};
      for (; next < end && place_at(next) == place; ++next)
        add(sum, gpu::load_pack<kPack>(from + (outer * slices.indices + order[next]) * slices.inner + element));
      if (is_ignored(place)) continue;
      const bool came = first == begin && comes_in(place, begin), goes = next == end && goes_on(place, end);
      gpu::store_pack(came || goes ? part(segment, came ? 0 : 1) : target(place), sum);
    }
  }

 private:
  LOCKSTEP_HD bool is_ignored(std::int64_t place) const {
    return place < 0 || place >= slices.places || place == ignored;
  }
  LOCKSTEP_HD std::int64_t place_at(std::int64_t i) const { return index[order[i]]; }
  LOCKSTEP_HD bool comes_in(std::int64_t place, std::int64_t begin) const {
    return begin > 0 && place_at(begin - 1) == place;
  }
  LOCKSTEP_HD bool goes_on(std::int64_t place, std::int64_t end) const {
    return end < slices.indices && place_at(end) == place;
  }

  void add(std::int64_t outer, std::int64_t first, std::int64_t count) const {
    for (std::int64_t i = 0; i < slices.indices; ++i) {
      const std::int64_t place = index[i];
      if (is_ignored(place)) continue;
      const T* const source = from + (outer * slices.indices + i) * slices.inner + first;
      C* const target = to + (outer * slices.places + place) * slices.inner + first;
      for (std::int64_t k = 0; k < count; ++k) target[k] += C(source[k]);
    }
  }
};

const std::int64_t* indices_of(const Tensor& index) {
  return reinterpret_cast<const std::int64_t*>(index.impl()->data());
}

}  // namespace

Tensor gather_slices(const char* op, const char* node, const Tensor& x, int dim, const Tensor& index,
                     IgnoredIndex ignored, IgnoredIndex without_gradient) {
  const Tensor dense = x.detach().contiguous(), places = index.contiguous();
  Shape sizes = x.sizes();
  sizes[dim] = index.numel();
  Tensor out = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  if (out.numel() != 0) {
    Slices slices = slices_of(sizes, dim, x.sizes()[dim], index.numel());
    const auto take = [&]<class T>() {
      const GatherSlices<T> kernel{slices,
                                   gpu::Divisor(slices.inner),
                                   gpu::Divisor(slices.indices),
                                   reinterpret_cast<const T*>(dense.impl()->data()),
                                   indices_of(places),
                                   reinterpret_cast<T*>(out.impl()->data()),
                                   ignored.index};
      launch(op, 0, out, std::array{&dense, &places}, kernel);
    };
    const auto at = [](const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.impl()->data()); };
    const std::int64_t elements = std::int64_t(sizeof(Elements16) / size_of(x.dtype()));
    if (slices.inner % elements == 0 && at(dense) % sizeof(Elements16) == 0 && at(out) % sizeof(Elements16) == 0) {
      slices.inner /= elements;
      take.template operator()<Elements16>();
    } else {
      visit_bits(x.dtype(), take);
    }
  }
  if (records(x))
    record(node, out, {&x},
           [op, places = Saved(places), dim, size = x.sizes()[dim], without_gradient](const Tensor& g) {
             const Tensor place = autograd::grad_bucket_view(0);
             return Gradients{scatter_add_slices(op, g, dim, places.get(), size, without_gradient, place)};
           });
  return out;
}

Tensor scatter_add_slices(const char* op, const Tensor& x, int dim, const Tensor& index, std::int64_t size,
                          IgnoredIndex ignored, const Tensor& place) {
  const Tensor dense = x.detach().contiguous(), places = index.contiguous();
  Shape sizes = x.sizes();
  sizes[dim] = size;
  Tensor out = visit_floating(op, x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const bool has_place = place.defined() && place.dtype() == kDTypeOf<C>;
    const Tensor sums = has_place ? place : make_tensor(*x.impl()->storage->device, sizes, kDTypeOf<C>);
    fill_values(sums, 0);
    if (sums.numel() == 0 || x.numel() == 0) return sums.to(x.dtype());
    const Tensor order = order_on_gpu(op, places, 0);
    const Slices slices = slices_of(sizes, dim, size, index.numel());
    const std::int64_t segments = ScatterAddSlices<T, 1>::segments_of(slices);
    DeviceState& device = *x.impl()->storage->device;
    const bool by_grids = device.backend.launches_grids();
    const Tensor partial =
        by_grids ? make_tensor(device, {slices.outer, segments, 2, slices.inner}, kDTypeOf<C>) : Tensor();
    const auto add = [&]<int kPack>() {
      const ScatterAddSlices<T, kPack> kernel{slices,
                                              reinterpret_cast<const T*>(dense.impl()->data()),
                                              indices_of(places),
                                              indices_of(order),
                                              reinterpret_cast<C*>(sums.impl()->data()),
                                              by_grids ? reinterpret_cast<C*>(partial.impl()->data()) : nullptr,
                                              ignored.index,
                                              gpu::Divisor(slices.inner / kPack),
                                              gpu::Divisor(segments)};
      launch("scatter_add_slices", double(x.numel()), std::array{&sums, &partial}, std::array{&dense, &places, &order},
             kernel);
    };
    constexpr int kPack = int(16 / sizeof(C));  // `sums` is aligned to packs; `dense` may be a view
    if (by_grids && slices.inner % kPack == 0 &&
        gpu::is_aligned<kPack>(reinterpret_cast<const T*>(dense.impl()->data())))
      add.template operator()<kPack>();
    else
      add.template operator()<1>();
    return sums.to(x.dtype());
  });
  if (records(x))
    record("ScatterAddSlices", out, {&x}, [op, places = Saved(places), dim, ignored](const Tensor& g) {
      return Gradients{gather_slices(op, "GatherSlices", g, dim, places.get(), ignored, ignored)};
    });
  return out;
}

}  // namespace lockstep
