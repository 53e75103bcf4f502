#include "ops/runs.h"

#include <cstring>

#include <lockstep/tensor/kernels/visit.h>
#include "autograd/record.h"
#include "ops/sorted_places.h"
#include "runtime/host/parallel.h"
#include "tensor/copy.h"
#include "tensor/kernels/launch.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::record;
using autograd::records;
using autograd::Saved;

// Dense tensors seen as [outer, places, inner].
struct Runs {
  std::int64_t outer = 1, inner = 1;
  std::int64_t places = 0;  // of the side that is indexed
  std::int64_t indices = 0;
};

Runs runs_of(const Shape& sizes, int dim, std::int64_t places, std::int64_t indices) {
  Runs runs{1, 1, places, indices};
  for (int i = 0; i < dim; ++i) runs.outer *= sizes[i];
  for (int i = dim + 1; i < sizes.rank(); ++i) runs.inner *= sizes[i];
  return runs;
}

// T: an integer of the elements' size.
template <class T>
struct TakeRuns {
  Runs runs;
  const T* from;
  const std::int64_t* index;
  T* to;
  std::int64_t skipped;

  // Where the run of place i of the result comes from; null for zeros.
  LOCKSTEP_HD const T* source(std::int64_t i) const {
    const std::int64_t place = index[i % runs.indices];
    if (place < 0 || place >= runs.places || place == skipped) return nullptr;
    return from + (i / runs.indices * runs.places + place) * runs.inner;
  }

  void operator()(const KernelContext& context) const {
    constexpr std::int64_t kGrainBytes = 1 << 16;
    const std::size_t run_bytes = std::size_t(runs.inner) * sizeof(T);
    const std::int64_t grain = kGrainBytes / std::int64_t(run_bytes + 1) + 1;
    host::vectorized_for(context, runs.outer * runs.indices, grain,
                         [this, run_bytes](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             if (const T* const run = source(i))
                               std::memcpy(to + i * runs.inner, run, run_bytes);
                             else
                               std::memset(to + i * runs.inner, 0, run_bytes);
                           }
                         });
  }

  std::int64_t items() const { return runs.outer * runs.indices * runs.inner; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const T* const run = source(i / runs.inner);
    to[i] = run ? run[i % runs.inner] : T(0);
  }
};

// Every element of the result is one task's: no two add to it at once, and always in the order of the indices. On the
// host a task walks through all of them; on a GPU they are sorted, and the first of those that are equal adds for all.
template <class T>
struct AddRuns {
  using C = ComputeType<T>;
  static constexpr std::int64_t kBlock = 64;  // elements of a run that are one task's

  Runs runs;
  const T* from;
  const std::int64_t* index;
  const std::int64_t* order;  // of the indices, on a GPU
  C* to;                      // zeros
  std::int64_t skipped;

  void operator()(const KernelContext& context) const {
    const std::int64_t blocks = (runs.inner + kBlock - 1) / kBlock;
    const std::int64_t grain = (1 << 15) / (runs.indices * std::min(kBlock, runs.inner) + 1) + 1;
    host::vectorized_for(context, runs.outer * blocks, grain, [this, blocks](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t first = b % blocks * kBlock;
        add(b / blocks, first, std::min(kBlock, runs.inner - first));
      }
    });
  }

  std::int64_t items() const { return runs.outer * runs.indices * runs.inner; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::int64_t element = i % runs.inner, outer = i / runs.inner / runs.indices;
    std::int64_t next = i / runs.inner % runs.indices;
    const std::int64_t place = index[order[next]];
    if (is_left_out(place) || (next > 0 && index[order[next - 1]] == place)) return;
    C sum = 0;
    for (; next < runs.indices && index[order[next]] == place; ++next)
      sum += C(from[(outer * runs.indices + order[next]) * runs.inner + element]);
    to[(outer * runs.places + place) * runs.inner + element] = sum;
  }

 private:
  LOCKSTEP_HD bool is_left_out(std::int64_t place) const {
    return place < 0 || place >= runs.places || place == skipped;
  }

  void add(std::int64_t outer, std::int64_t first, std::int64_t count) const {
    for (std::int64_t i = 0; i < runs.indices; ++i) {
      const std::int64_t place = index[i];
      if (is_left_out(place)) continue;
      const T* const source = from + (outer * runs.indices + i) * runs.inner + first;
      C* const target = to + (outer * runs.places + place) * runs.inner + first;
      for (std::int64_t k = 0; k < count; ++k) target[k] += C(source[k]);
    }
  }
};

const std::int64_t* indices_of(const Tensor& index) {
  return reinterpret_cast<const std::int64_t*>(index.impl()->data());
}

}  // namespace

Tensor take_runs(const char* op, const char* node, const Tensor& x, int dim, const Tensor& index, SkippedRun skipped,
                 SkippedRun without_gradient) {
  const Tensor dense = x.detach().contiguous(), places = index.contiguous();
  Shape sizes = x.sizes();
  sizes[dim] = index.numel();
  Tensor out = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  if (out.numel() != 0) {
    const Runs runs = runs_of(sizes, dim, x.sizes()[dim], index.numel());
    visit_bits(x.dtype(), [&]<class T>() {
      const TakeRuns<T> kernel{runs, reinterpret_cast<const T*>(dense.impl()->data()), indices_of(places),
                               reinterpret_cast<T*>(out.impl()->data()), skipped.index};
      launch(op, 0, out, std::array{&dense, &places}, kernel);
    });
  }
  if (records(x))
    record(node, out, {&x},
           [op, places = Saved(places), dim, size = x.sizes()[dim], without_gradient](const Tensor& g) {
             return Gradients{add_runs(op, g, dim, places.get(), size, without_gradient)};
           });
  return out;
}

Tensor add_runs(const char* op, const Tensor& x, int dim, const Tensor& index, std::int64_t size, SkippedRun skipped) {
  const Tensor dense = x.detach().contiguous(), places = index.contiguous();
  Shape sizes = x.sizes();
  sizes[dim] = size;
  Tensor out = visit_floating(op, x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const Tensor sums = make_tensor(*x.impl()->storage->device, sizes, kDTypeOf<C>);
    fill_values(sums, 0);
    if (sums.numel() == 0 || x.numel() == 0) return sums.to(x.dtype());
    const Tensor order = order_on_gpu(op, places, 0);
    const AddRuns<T> kernel{runs_of(sizes, dim, size, index.numel()),
                            reinterpret_cast<const T*>(dense.impl()->data()),
                            indices_of(places),
                            indices_of(order),
                            reinterpret_cast<C*>(sums.impl()->data()),
                            skipped.index};
    launch("add_runs", double(x.numel()), sums, std::array{&dense, &places, &order}, kernel);
    return sums.to(x.dtype());
  });
  if (records(x))
    record("AddRuns", out, {&x}, [op, places = Saved(places), dim, skipped](const Tensor& g) {
      return Gradients{take_runs(op, "TakeRuns", g, dim, places.get(), skipped, skipped)};
    });
  return out;
}

}  // namespace lockstep
