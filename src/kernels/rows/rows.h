// Operations on rows: a function object gets one row of each operand at a time, along one dimension of all operands
// (lockstep/kernels/row_kernel.h).
#pragma once

#include <algorithm>
#include <bit>

#include <lockstep/kernels/row_kernel.h>

#include "kernels/launch.h"
#include "kernels/rows/row_buffer.h"

namespace lockstep {

/// Runs a RowKernel<F, Out, In...> on a few neighbouring rows at a time, in buffers in which operands have their
/// compute types. stored: how elements are stored in memory.
template <class F, class Out, class... In>
void map_rows_in_buffers(const KernelContext& context, const RowGeometry<1 + sizeof...(In)>& rows, const F& f,
                         const std::array<Stored, 1 + sizeof...(In)>& stored, void* out,
                         const std::array<const void*, sizeof...(In)>& in) {
  using Kernel = RowKernel<F, Out, In...>;
  constexpr std::size_t kOperands = 1 + sizeof...(In);
  const Geometry<int(kOperands)>& outer = rows.outer;
  const std::int64_t neighbours = outer.sizes.empty() ? 1 : outer.sizes.back();
  const std::int64_t at_once =
      host::RowBuffers::rows_at_once(*std::max_element(rows.lengths.begin(), rows.lengths.end()));
  std::array<host::RowBuffers::Operand, kOperands> operands;
  for (std::size_t n = 0; n < kOperands; ++n)
    operands[n] = {stored[n], rows.lengths[n], rows.steps[n], outer.sizes.empty() ? 0 : outer.strides[n].back()};
  const auto are_one = [&](std::size_t m, std::size_t n) {  // true if inputs m and n are the same rows
    return in[m] == in[n] && operands[m + 1] == operands[n + 1] && outer.strides[m + 1] == outer.strides[n + 1];
  };
  std::array<std::size_t, sizeof...(In)> brought;  // the input whose buffer input n uses: n, or an equal input
  for (std::size_t n = 0; n < in.size(); ++n)
    for (brought[n] = 0; !are_one(brought[n], n);) ++brought[n];
  host::parallel_for(context, outer.numel, Kernel::grain_of(rows), [&](std::int64_t begin, std::int64_t end) {
    host::RowBuffers buffers(operands, at_once);
    Kernel kernel{{{}, rows.lengths, {}}, f, reinterpret_cast<Out*>(buffers.rows(0)), {}};
    kernel.outer.sizes = {at_once};
    kernel.steps.fill(1);
    for (std::size_t n = 0; n < kOperands; ++n)
      kernel.outer.strides[n] = {operands[n].stride == 0 ? 0 : operands[n].length};
    for (std::size_t n = 0; n < in.size(); ++n) kernel.in[n] = buffers.rows(brought[n] + 1);
    for (std::int64_t r = begin, count; r < end; r += count) {
      count = std::min({at_once, end - r, neighbours - r % neighbours});
      const auto at = offsets_at(outer, r);
      for (std::size_t n = 0; n < in.size(); ++n)
        if (brought[n] == n) buffers.load(n + 1, in[n], at[n + 1], count);
      kernel.run(0, count);
      buffers.store(0, out, at[0], count);
    }
  });
}

/// The kernel for rows of 16-bit elements. F names its counterpart for rows of floats, F::Wide, which has the same
/// members. The host form converts the rows and calls F::Wide, which uses vector instructions and rounds a result once.
template <class F, class Out, class... In>
struct NarrowRowKernel : RowKernel<F, Out, In...> {
  void operator()(const KernelContext& context) const {
    using Wide = typename F::Wide;
    map_rows_in_buffers<Wide, ComputeType<Out>, ComputeType<In>...>(
        context, *this, std::bit_cast<Wide>(this->f), {kStored<Out>, kStored<In>...}, this->out, this->in);
  }
};
template <class F>
inline constexpr bool kHasWide = requires {
  typename F::Wide;
};

/// Calls f(team, row of out, rows of inputs...) for each row along `dim`, or f(row of out, rows of inputs...) if f
/// processes a row in order; OneThread documents teams. All operands are on one device, and have one rank and the
/// dtypes Out and In. Only rows that all operands have are visited; along `dim` the sizes may differ. `out` shares no
/// memory with the inputs, unless it is an input whose elements f reads only for the same element of out; f may read
/// the old values of out's row.
template <class Out, class... In, class F, class... Inputs>
void map_rows(const char* name, double flops_per_element, const F& f, int dim, const Tensor& out,
              const Inputs&... inputs) {
  const TensorImpl& of_out = *out.impl();
  const auto rows = rows_along<1 + sizeof...(In)>(dim, {&of_out.sizes, &inputs.impl()->sizes...},
                                                  {&of_out.strides, &inputs.impl()->strides...});
  if (rows.outer.numel == 0 || of_out.numel == 0) return;
  const std::int64_t most = std::max({of_out.numel, inputs.impl()->numel...});
  const RowKernel<F, Out, In...> kernel{rows, f, reinterpret_cast<Out*>(of_out.data()), {inputs.impl()->data()...}};
  const std::array<const Tensor*, sizeof...(In)> read = {&inputs...};
  if constexpr (kHasWide<F> && (kNarrow<Out> || ... || kNarrow<In>))
    launch(name, flops_per_element * double(most), out, read, NarrowRowKernel<F, Out, In...>{kernel});
  else
    launch(name, flops_per_element * double(most), out, read, kernel);
}

}  // namespace lockstep
