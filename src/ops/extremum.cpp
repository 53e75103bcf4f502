// The greatest and the least element, and their indices.
#include <limits>

#include <lockstep/ops/index.h>
#include <lockstep/ops/reduce.h>

#include "kernels/rows/rows.h"
#include "ops/record.h"
#include "ops/shared_gradient.h"

namespace lockstep {
namespace {

struct Greatest {
  static constexpr bool kGreatest = true;
  template <class C>
  LOCKSTEP_HD static bool wins(C a, C b) {
    return a > b;
  }
};
struct Least {
  static constexpr bool kGreatest = false;
  template <class C>
  LOCKSTEP_HD static bool wins(C a, C b) {
    return a < b;
  }
};

template <class C, class Order>
struct Extremum {
  using Accumulator = C;
  LOCKSTEP_HD Accumulator identity() const {
    using Limits = std::numeric_limits<Accumulator>;
    if constexpr (Limits::has_infinity)
      return Order::kGreatest ? -Limits::infinity() : Limits::infinity();
    else
      return Order::kGreatest ? Limits::lowest() : Limits::max();
  }
  LOCKSTEP_HD Accumulator load(Accumulator x) const { return x; }
  LOCKSTEP_HD Accumulator combine(Accumulator a, Accumulator b) const { return a != a || Order::wins(a, b) ? a : b; }
  LOCKSTEP_HD Accumulator finish(Accumulator a, std::int64_t) const { return a; }
};

// The index of the first NaN, or else of the first extreme element.
template <class T, class Order>
struct ExtremumPlace {
  using C = ComputeType<T>;
  using Wide = ExtremumPlace<C, Order>;
  struct Best {
    C value;
    std::int64_t place;
  };
  LOCKSTEP_HD static bool beats(C a, C b) { return Order::wins(a, b) | ((a != a) & (b == b)); }  // branch-free

  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<std::int64_t> out, RowOf<const T> x) const {
    const Best best = team.reduce(
        x.length, Best{C(x[0]), 0},
        [&](const Best& best_so_far, std::int64_t i) {
          const C value = C(x[i]);
          const bool beaten = beats(value, best_so_far.value);
          return Best{beaten ? value : best_so_far.value, beaten ? i : best_so_far.place};
        },
        [](const Best& a, const Best& b) {
          return beats(b.value, a.value) || (b.place < a.place && !beats(a.value, b.value)) ? b : a;
        });
    if (team.first()) out[0] = best.place;
  }
};

template <class Order>
Tensor extremum(const char* op, const char* node, const Tensor& x, const DimMask& mask, bool keep_dims) {
  const TensorImpl& from = *x.impl();
  check_not_empty(op, from.sizes, mask);
  Tensor out = make_tensor(*from.storage->device, reduced_sizes(from.sizes, mask, keep_dims), from.dtype);
  visit_numeric(op, from.dtype, [&]<class T>() { reduce<T, T>(op, Extremum<ComputeType<T>, Order>(), out, x, mask); });
  if (records(x))
    record(node, out, {&x}, [x = Saved(x), y = Saved(out, kOutput), mask](const Tensor& g) {
      return Gradients{shared_evenly(g, x.get(), y.get(), mask)};
    });
  return out;
}

template <class Order>
Tensor place(const char* op, const Tensor& x, std::int64_t dim, bool keep_dims) {
  const TensorImpl& from = impl_of(op, x);
  const int d = wrap_dim(op, dim, from.sizes.rank());
  DimMask mask = {};
  mask[std::size_t(d)] = true;
  check_not_empty(op, from.sizes, mask);
  const Tensor out = make_tensor(*from.storage->device, reduced_sizes(from.sizes, mask, true), kInt64);
  visit_numeric(op, from.dtype,
                [&]<class T>() { map_rows<std::int64_t, T>(op, 1, ExtremumPlace<T, Order>(), d, out, x); });
  return keep_dims ? out : out.squeeze(d);
}

template <class Order>
ValuesAndIndices with_place(const char* op, const Tensor& x, std::int64_t dim, bool keep_dims) {
  const Tensor places = place<Order>(op, x, dim, true);
  const Tensor values = gather_elements(x, dim, places);
  if (keep_dims) return {values, places};
  return {values.squeeze(dim), places.squeeze(dim)};
}

template <class Order>
Tensor place_among_all(const char* op, const Tensor& x) {
  return place<Order>(op, x.dim() ? x.flatten() : x, 0, false);
}

}  // namespace

Tensor amax(const Tensor& x, const Shape& dims, bool keep_dims) {
  return extremum<Greatest>("amax", "Amax", x, mask_or_all("amax", dims, impl_of("amax", x).sizes.rank()), keep_dims);
}
Tensor amin(const Tensor& x, const Shape& dims, bool keep_dims) {
  return extremum<Least>("amin", "Amin", x, mask_or_all("amin", dims, impl_of("amin", x).sizes.rank()), keep_dims);
}
Tensor max(const Tensor& x) {
  return extremum<Greatest>("max", "Max", x, all_of(impl_of("max", x).sizes.rank()), false);
}
Tensor min(const Tensor& x) { return extremum<Least>("min", "Min", x, all_of(impl_of("min", x).sizes.rank()), false); }

ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keep_dims) {
  return with_place<Greatest>("max", x, dim, keep_dims);
}
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keep_dims) {
  return with_place<Least>("min", x, dim, keep_dims);
}
Tensor argmax(const Tensor& x) { return place_among_all<Greatest>("argmax", x); }
Tensor argmin(const Tensor& x) { return place_among_all<Least>("argmin", x); }
Tensor argmax(const Tensor& x, std::int64_t dim, bool keep_dims) {
  return place<Greatest>("argmax", x, dim, keep_dims);
}
Tensor argmin(const Tensor& x, std::int64_t dim, bool keep_dims) { return place<Least>("argmin", x, dim, keep_dims); }

}  // namespace lockstep
