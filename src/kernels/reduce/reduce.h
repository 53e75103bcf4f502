// Reductions: out[o] = finish(a), where a combines load(in[o, r]) for all r, and r runs over the reduced dimensions.
#pragma once

#include <array>

#include <lockstep/kernels/forms.h>

#include "kernels/launch.h"
#include "kernels/reduce/reduce_kernel.h"

namespace lockstep {

template <class R>
struct ReduceKernel;

/// The forms of a reduction by R, for the dtypes of its operands.
template <class R>
struct ReduceForms {
  const ReduceLoops* host;
  /// Enqueues its grids on a GPU; null if this source is not compiled for GPUs.
  void (*grids)(const ReduceKernel<R>&, const KernelContext&);
};

template <class R>
struct ReduceKernel {
  R reducer;
  ReductionPlan of;
  ReduceForms<R> forms;

  void operator()(const KernelContext& context) const { host::reduce(context, of, *forms.host, &reducer); }
  void enqueue(const KernelContext& context) const { forms.grids(*this, context); }
};
/// True for each dimension of a tensor that is reduced.
using DimMask = std::array<bool, Shape::kMaxRank>;

/// x's sizes without the reduced dimensions, or with size 1 for each of them if keep_dims.
inline Shape reduced_sizes(const Shape& sizes, const DimMask& mask, bool keep_dims) {
  Shape result;
  for (int i = 0; i < sizes.rank(); ++i)
    if (!mask[std::size_t(i)] || keep_dims) result.push_back(mask[std::size_t(i)] ? 1 : sizes[i]);
  return result;
}

/// Plans the reduction of x over the masked dimensions into `out`, which is dense and has the kept dimensions'
/// elements.
ReductionPlan plan_reduction(const Tensor& out, const Tensor& x, const DimMask& mask);

/// Reduces x over the masked dimensions into `out`. x has elements of type In and `out` of type Out. R is a copyable
/// object, which works on their compute types, with
///   Accumulator           a type,
///   identity()            -> Accumulator,
///   load(x)               -> Accumulator, from one element in its compute type,
///   combine(a, b)         -> Accumulator, associative up to rounding,
///   finish(a, count)      -> the value that is stored, from `count` combined elements.
template <class Out, class In, class R>
void reduce(const char* name, const R& reducer, const Tensor& out, const Tensor& x, const DimMask& mask) {
  const ReduceKernel<R> kernel{reducer,
                               plan_reduction(out, x, mask),
                               {&kReduceLoops<R, Out, In>, LOCKSTEP_GRIDS(gpu::enqueue_reduce<R, Out, In>)}};
  if (kernel.of.kept.numel > 0) launch(name, double(x.numel()), out, std::array{&x}, kernel);
}

}  // namespace lockstep
