// An elementwise kernel over many tensors in one launch. The operands are tuples of tensors (a, b, ...) of one size,
// for example one tuple for each parameter: the parameter, its gradient and its momentum. For each tuple and each
// element index i the kernel calls f(a[i], b[i], ...). Fused optimizers use it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/kernels/forms.h>
#include <lockstep/kernels/multi_output_kernel.h>
#include <lockstep/runtime/kernel.h>

namespace lockstep {

struct DeviceState;
struct TensorImpl;

/// One tuple of operands: N contiguous tensors with the same number of elements.
template <std::size_t N>
using MultiRow = std::array<const TensorImpl*, N>;

/// A contiguous range of every operand. `first`: the number of elements in all earlier spans.
template <std::size_t N>
struct MultiSpan {
  std::array<std::byte*, N> data;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Returns f.bind() if f has bind(), else f. bind() reads f's values from device memory, once, when the kernel runs.
template <class F>
LOCKSTEP_HD auto bound(const F& f) {
  if constexpr (requires { f.bind(); })
    return f.bind();
  else
    return f;
}

/// A loop over tuples of N operands of given dtypes. The code that does not depend on the function is compiled once for
/// each N.
template <std::size_t N>
struct MultiMapLoop {
  ElementwiseLoop loop;
  std::array<std::size_t, N> element_bytes;

  /// Runs the loop of f over all elements of the spans, which are in order of `first`.
  void run(const KernelContext& context, const void* f, std::span<const MultiSpan<N>> spans) const {
    const std::int64_t elements = spans.back().first + spans.back().count;
    host::parallel_for(context, elements, loop.grain, [&](std::int64_t begin, std::int64_t end) {
      auto span = std::partition_point(spans.begin(), spans.end(),
                                       [begin](const auto& s) { return s.first + s.count <= begin; });
      for (; begin < end; ++span) {
        const std::int64_t count = std::min(span->first + span->count, end) - begin;
        std::array<std::byte*, N> data = span->data;
        for (std::size_t n = 0; n < N; ++n) data[n] += (begin - span->first) * std::int64_t(element_bytes[n]);
        host::elementwise_row(ElementwiseWork(loop, f, data), count);
        begin += count;
      }
    });
  }
};

template <class F, std::size_t N>
struct MultiMapKernel;

/// The forms of a kernel over tuples of N operands, for their dtypes.
template <class F, std::size_t N>
struct MultiMapForms {
  MultiMapLoop<N> host;  ///< Calls the bound function.
  /// Enqueues its grids on a GPU; null if this source is not compiled for GPUs.
  void (*grids)(const MultiMapKernel<F, N>&, const KernelContext&);
};

template <class F, std::size_t N>
struct MultiMapKernel {
  F f;
  std::shared_ptr<const std::vector<MultiSpan<N>>> spans;
  const MultiMapForms<F, N>* forms;

  void operator()(const KernelContext& context) const {
    const auto bound_f = bound(f);
    forms->host.run(context, &bound_f, *spans);
  }
  void enqueue(const KernelContext& context) const { forms->grids(*this, context); }
};
template <class F, class... T>
inline constexpr MultiMapForms<F, sizeof...(T)> kMultiMapForms = {
    {kMultiOutputLoop<1 << 15, std::remove_cvref_t<decltype(bound(std::declval<const F&>()))>, T...>, {sizeof(T)...}},
    LOCKSTEP_GRIDS(gpu::enqueue_multi_map<F, T...>)};

namespace detail {
struct Elements {
  std::byte* data;
  std::int64_t count;
};
LOCKSTEP_API Elements elements_of(const TensorImpl& tensor);

/// Sorts the spans by the first operand's address, and merges spans that are adjacent in every operand.
template <std::size_t N>
void merge(std::vector<MultiSpan<N>>& spans, const std::array<std::size_t, N>& element_bytes) {
  std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return a.data[0] < b.data[0]; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < spans.size(); ++i) {
    bool follows = true;
    for (std::size_t n = 0; n < N; ++n)
      follows &= spans[last].data[n] + std::size_t(spans[last].count) * element_bytes[n] == spans[i].data[n];
    if (follows)
      spans[last].count += spans[i].count;
    else
      spans[++last] = spans[i];
  }
  if (!spans.empty()) spans.resize(last + 1);
  std::int64_t first = 0;
  for (MultiSpan<N>& span : spans) {
    span.first = first;
    first += span.count;
  }
}

/// The operands of a launch. If they have no elements, nothing is launched.
template <std::size_t N>
struct MultiOperands {
  std::shared_ptr<const std::vector<MultiSpan<N>>> spans;
  std::vector<const TensorImpl*> tensors;
  std::vector<MemoryAccess> accesses;
  std::int64_t elements = 0;
};
template <std::size_t N>
MultiOperands<N> operands_of(std::span<const MultiRow<N>> rows, const MultiMapLoop<N>& loop) {
  MultiOperands<N> operands;
  std::vector<MultiSpan<N>> spans;
  spans.reserve(rows.size());
  operands.tensors.reserve(rows.size() * N);
  for (const MultiRow<N>& row : rows) {
    MultiSpan<N> span;
    for (std::size_t n = 0; n < N; ++n) {
      const Elements elements = elements_of(*row[n]);
      span.data[n] = elements.data;
      if (n == 0) span.count = elements.count;
      operands.tensors.push_back(row[n]);
    }
    if (span.count > 0) spans.push_back(span);
  }
  merge(spans, loop.element_bytes);
  operands.accesses.reserve(spans.size() * N + 1);  // one more for the parameters that f reads
  for (const MultiSpan<N>& span : spans)
    for (std::size_t n = 0; n < N; ++n) {
      const std::size_t bytes = std::size_t(span.count) * loop.element_bytes[n];
      const bool writes = loop.loop.operands[n].writes;
      operands.accesses.push_back({{span.data[n], bytes, 1, bytes}, writes ? AccessKind::write : AccessKind::read});
    }
  if (!spans.empty()) operands.elements = spans.back().first + spans.back().count;
  operands.spans = std::make_shared<const std::vector<MultiSpan<N>>>(std::move(spans));
  return operands;
}

/// A launch over many tensors. `accesses` lists the memory that it reads or writes; it also reads all `parameters`.
struct MultiLaunch {
  const char* name;
  double flops;
  std::vector<MemoryAccess> accesses;
  std::span<const TensorImpl*const> tensors, parameters;
  bool has_device_form;
};
/// Enqueues the kernel. Throws InvalidArgument if the device needs a form (host or GPU) for which the kernel is not
/// compiled.
LOCKSTEP_API void launch_over(DeviceState& device, MultiLaunch launch, KernelRef kernel);
}  // namespace detail

/// Calls f(a[i], b[i], ...) for each tuple {a, b, ...} of `rows` and each element index i. T: the types of the elements
/// of a, b, ..., const where f only reads; f takes references to their compute types. All tensors are on `device`. `f`
/// must be copyable. If `f` has bind(), the kernel calls bind() when it runs, and applies the function that bind()
/// returns; so bind() may read `parameters` on the device. Does not bump versions.
template <class... T, class F>
void multi_map(const char* name, double flops_per_element, const F& f, DeviceState& device,
               std::span<const MultiRow<sizeof...(T)>> rows, std::span<const TensorImpl* const> parameters = {}) {
  const auto& forms = kMultiMapForms<F, T...>;
  auto operands = detail::operands_of(rows, forms.host);
  if (operands.elements == 0) return;
  const MultiMapKernel<F, sizeof...(T)> kernel{f, std::move(operands.spans), &forms};
  detail::launch_over(device,
                      {name, flops_per_element * double(operands.elements), std::move(operands.accesses),
                       operands.tensors, parameters, kHasDeviceForms},
                      in_all_forms(kernel));
}

}  // namespace lockstep
