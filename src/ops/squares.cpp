#include "ops/squares.h"

#include <cmath>

namespace lockstep {
namespace {

template <class C>
struct Squares {
  using Accumulator = C;
  C scale;
  bool root;
  LOCKSTEP_HD C identity() const { return 0; }
  LOCKSTEP_HD C load(C x) const { return x * x; }
  LOCKSTEP_HD C combine(C a, C b) const { return a + b; }
  LOCKSTEP_HD C finish(C a, std::int64_t) const { return root ? std::sqrt(a * scale) : a * scale; }
};

}  // namespace

Tensor sum_squares(const char* op, const Tensor& x, const DimMask& mask, bool keep_dims, double scale, Finish finish) {
  const TensorImpl& from = *x.impl();
  Tensor out = make_tensor(*from.storage->device, reduced_sizes(from.sizes, mask, keep_dims), from.dtype);
  visit_floating(op, from.dtype, [&]<class T>() {
    using C = ComputeType<T>;
    reduce<T, T>(op, Squares<C>{C(scale), finish == Finish::root}, out, x, mask);
  });
  return out;
}

}  // namespace lockstep
