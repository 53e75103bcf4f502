// Gathers single elements by index along a dimension, and adds elements at such indices. Each of the two operations is
// the gradient of the other.
#include <lockstep/ops/index.h>

#include <lockstep/ops/compare.h>
#include <lockstep/tensor/creation.h>

#include "core/integers.h"
#include "core/text.h"
#include "kernels/rows/rows.h"
#include "ops/dtypes.h"
#include "ops/index_check.h"
#include "ops/put_elements.h"
#include "ops/record.h"
#include "ops/sorted_places.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

template <class T>
struct PickElements {
  static constexpr int kIndependentOperand = 0;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const T> x, RowOf<const std::int64_t> index) const {
    team.each(out.length, [&](std::int64_t i) {
      const std::int64_t place = index[i];
      out[i] = place < 0 || place >= x.length ? T(0) : x[place];
    });
  }
};

// Adds sources with equal indices in the order of the sources. On a GPU, `order` sorts the indices. Among equal
// indices, the thread of the first one adds the sources of all.
template <class T>
struct AddElements {
  static constexpr int kIndependentOperand = 1;
  using C = Wrapping<ComputeType<T>>;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const std::int64_t> index,
                              RowOf<const std::int64_t> order, RowOf<const T> source) const {
    const auto is_there = [&](std::int64_t place) { return place >= 0 && place < out.length; };
    if constexpr (Team::kSerial) {
      for (std::int64_t i = 0; i < index.length; ++i)
        if (const std::int64_t place = index[i]; is_there(place)) out[place] = T(C(out[place]) + C(source[i]));
    } else {
      team.each(index.length, [&](std::int64_t i) {
        const std::int64_t place = index[order[i]];
        if (!is_there(place) || (i > 0 && index[order[i - 1]] == place)) return;
        C sum = C(out[place]);
        for (; i < index.length && index[order[i]] == place; ++i) sum += C(source[order[i]]);
        out[place] = T(sum);
      });
    }
  }
};

struct OneHot {
  static constexpr int kIndependentOperand = 0;
  template <class Team>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<std::int64_t> out, RowOf<const std::int64_t> index) const {
    const std::int64_t place = index[0];
    team.each(out.length, [&](std::int64_t i) { out[i] = place == i; });
  }
};

struct Places {
  int dim;
  Tensor index;  // int64
};

// The part of source that is used: its first elements along each dimension, as many as index has.
Tensor used_part(const Tensor& source, const Tensor& index) {
  Tensor used = source;
  for (int i = 0; i < used.dim(); ++i)
    if (used.sizes()[i] != index.sizes()[i]) used = used.narrow(i, 0, index.sizes()[i]);
  return used;
}

// Checks that index is no larger than `other` in any dimension except `dim` (-1: no exception).
void check_fits(const char* op, const Tensor& index, const Tensor& other, int dim) {
  bool fits = index.dim() == other.dim();
  for (int i = 0; fits && i < index.dim(); ++i) fits = i == dim || index.sizes()[i] <= other.sizes()[i];
  if (!fits)
    throw ShapeError(text("[", op, "] expected an index of the rank of ", other.sizes(), ", no larger in any dimension",
                          dim < 0 ? "" : text(" except dimension ", dim), ", got ", index.sizes()));
}

// Checks the arguments of writing or adding along `dim` of x by index.
Places checked_places(const char* op, const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  check_same_device(op, x, index, source);
  const int d = wrap_dim(op, dim, x.dim());
  const Tensor places = as_index(op, index);
  check_fits(op, places, x, d);
  check_fits(op, places, source, -1);
  if (source.dtype() != x.dtype())
    throw DTypeError(text("[", op, "] expected a source of ", x.dtype(), ", got ", source.dtype()));
  check_index(op, places, x.dim() ? x.sizes()[d] : 1);
  return {d, places};
}

}  // namespace

Tensor gather_elements(const Tensor& x, std::int64_t dim, const Tensor& index) {
  check_same_device("gather_elements", x, index);
  const int d = wrap_dim("gather_elements", dim, x.dim());
  const Tensor places = as_index("gather_elements", index);
  check_fits("gather_elements", places, x, d);
  check_index("gather_elements", places, x.dim() ? x.sizes()[d] : 1);
  Tensor out = make_tensor(*x.impl()->storage->device, places.sizes(), x.dtype());
  visit_bits(x.dtype(), [&]<class T>() {
    map_rows<T, T, std::int64_t>("gather_elements", 0, PickElements<T>(), d, out, x, places);
  });
  if (records(x))
    record("GatherElements", out, {&x}, [places = Saved(places), d, sizes = x.sizes()](const Tensor& g) {
      const Tensor none = make_tensor(*g.impl()->storage->device, sizes, g.dtype());
      fill_values(none, 0);
      return Gradients{scatter_add(none, d, places.get(), g)};
    });
  return out;
}

namespace {

// True for each source that is the last one with its index.
Tensor last_ones(const Tensor& places, int dim, const Shape& sizes) {
  Shape along = Shape::filled(places.dim(), 1);
  if (places.dim()) along[dim] = places.sizes()[dim];
  const TensorOptions integers{.dtype = kInt64, .device = places.device()};
  const Tensor own = arange(double(along.elements()), integers).view(along).expand(places.sizes());
  return gather_elements(scatter_elements(full(sizes, -1, integers), dim, places, own), dim, places) == own;
}

}  // namespace

Tensor scatter_elements(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  const Places checked = checked_places("scatter_elements", x, dim, index, source);
  const int d = checked.dim;
  const Tensor places = checked.index;
  const Tensor used = used_part(source, places);
  Tensor out = copied(x, *x.impl()->storage->device, x.dtype());
  visit_bits(x.dtype(), [&]<class T>() {
    map_rows<T, std::int64_t, std::int64_t, T>("scatter_elements", 0, PutElements<T>(), d, out, places,
                                               order_on_gpu("scatter_elements", places, d), used);
  });
  if (records(x, used))
    record("ScatterElements", out, {&x, &used},
           [places = Saved(places), d, nx = needs_grad(x), ns = needs_grad(used)](const Tensor& g) {
             const Tensor at = places.get();
             return Gradients{nx ? scatter_elements(g, d, at, 0) : Tensor(),
                              ns ? where(last_ones(at, d, g.sizes()), gather_elements(g, d, at), 0) : Tensor()};
           });
  return out;
}

Tensor scatter_elements(const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  check_same_device("scatter_elements", x, index);
  return scatter_elements(x, dim, index, full({}, value, x.options()).expand(index.sizes()));
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  const Places checked = checked_places("scatter_add", x, dim, index, source);
  const int d = checked.dim;
  const Tensor places = checked.index;
  if (wide_dtype(x.dtype()) != x.dtype())  // many elements may be added: bfloat16 cannot count beyond 256
    return scatter_add(widened(x), dim, places, widened(source)).to(x.dtype());
  const Tensor used = used_part(source, places);
  Tensor out = copied(x, *x.impl()->storage->device, x.dtype());
  visit_numeric("scatter_add", x.dtype(), [&]<class T>() {
    if constexpr (!kNarrow<T>)
      map_rows<T, std::int64_t, std::int64_t, T>("scatter_add", 1, AddElements<T>(), d, out, places,
                                                 order_on_gpu("scatter_add", places, d), used);
  });
  if (records(x, used))
    record("ScatterAdd", out, {&x, &used},
           [places = Saved(places), d, nx = needs_grad(x), ns = needs_grad(used)](const Tensor& g) {
             return Gradients{nx ? g : Tensor(), ns ? gather_elements(g, d, places.get()) : Tensor()};
           });
  return out;
}

Tensor one_hot(const Tensor& index, std::int64_t classes) {
  const Tensor places = as_index("one_hot", index);
  if (classes == -1) {
    if (places.numel() == 0)
      throw ShapeError(text("[one_hot] classes = -1 needs at least one index, got an index of shape ", places.sizes(),
                            ": pass classes"));
    for (const std::int64_t place : places.to_vector<std::int64_t>()) classes = std::max(classes, place + 1);
  }
  if (classes < 1) throw InvalidArgument(text("[one_hot] expected at least one class, got ", classes));
  check_index("one_hot", places, classes);
  Shape sizes = places.sizes();
  sizes.push_back(classes);
  const Tensor out = make_tensor(*places.impl()->storage->device, sizes, kInt64);
  map_rows<std::int64_t, std::int64_t>("one_hot", 0, OneHot(), sizes.rank() - 1, out, places.unsqueeze(-1));
  return out;
}

}  // namespace lockstep
