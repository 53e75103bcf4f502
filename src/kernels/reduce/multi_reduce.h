// Reductions of many tensors in one launch: one CompensatedSum for each tensor. The order of combination depends only
// on the tensor's number of elements, not on the number of threads or on neighbouring tensors.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/core/float16_rows.h>
#include <lockstep/core/pairwise_reduce.h>
#include <lockstep/kernels/compensated_sum.h>
#include <lockstep/kernels/visit.h>

#include "kernels/launch.h"

namespace lockstep {

/// R is a copyable object with load(x), which takes and returns a double, and combine(a, b), which takes and returns
/// CompensatedSums and for which a CompensatedSum of 0 is the identity.
template <class R, class T>
struct MultiReduceKernel {
  static constexpr std::int64_t kPiece = 1 << 14;  // elements that one thread combines
  static constexpr std::int64_t kBuffer = 512;

  struct Row {
    const T* from;
    std::int64_t count;
    CompensatedSum* to;
    std::int64_t first;  // the number of the row's first piece; pieces are numbered over all rows
    std::int64_t pieces() const { return (count + kPiece - 1) / kPiece; }
  };

  R reducer;
  std::shared_ptr<const std::vector<Row>> rows;

  void operator()(const KernelContext& context) const {
    const std::int64_t pieces = rows->back().first + rows->back().pieces();
    std::vector<CompensatedSum> partial(static_cast<std::size_t>(pieces));
    host::vectorized_for(context, pieces, 2, [&](std::int64_t begin, std::int64_t end) {
      auto row = std::partition_point(rows->begin(), rows->end(),
                                      [begin](const Row& r) { return r.first + r.pieces() <= begin; });
      for (std::int64_t p = begin; p < end; ++p) {
        while (row->first + row->pieces() <= p) ++row;
        const std::int64_t from = (p - row->first) * kPiece;
        partial[std::size_t(p)] = piece(row->from + from, std::min(kPiece, row->count - from));
      }
    });
    for (const Row& row : *rows) {
      CompensatedSum total = {};
      for (std::int64_t p = 0; p < row.pieces(); ++p)
        total = reducer.combine(total, partial[std::size_t(row.first + p)]);
      *row.to = total;
    }
  }

 private:
  // CompensatedSums as one array for each member, so that the compiler vectorizes loops over them.
  struct Lanes {
    double sums[kLanes] = {}, errors[kLanes] = {};
  };

  LOCKSTEP_INLINE CompensatedSum piece(const T* from, std::int64_t count) const {
    Lanes lanes;
    if constexpr (kNarrow<T>) {
      float buffer[kBuffer];
      for (std::int64_t at = 0; at < count; at += kBuffer) {
        const std::int64_t n = std::min(kBuffer, count - at);
        widen(from + at, 1, n, buffer);
        add(buffer, n, lanes);
      }
    } else {
      add(from, count, lanes);
    }
    CompensatedSum totals[kLanes];
    for (int l = 0; l < kLanes; ++l) totals[l] = {lanes.sums[l], lanes.errors[l]};
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) totals[l] = reducer.combine(totals[l], totals[l + half]);
    return totals[0];
  }

  template <class Wide>
  LOCKSTEP_INLINE void add(const Wide* from, std::int64_t count, Lanes& to) const {
    Lanes lanes = to;
    const auto add_to = [&](int l, const Wide& x) {
      const CompensatedSum total =
          reducer.combine({lanes.sums[l], lanes.errors[l]}, CompensatedSum{reducer.load(double(x)), 0});
      lanes.sums[l] = total.sum;
      lanes.errors[l] = total.error;
    };
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      LOCKSTEP_NO_UNROLL
      for (int l = 0; l < kLanes; ++l) add_to(l, from[i + l]);
    }
    for (int l = 0; i < count; ++i, ++l) add_to(l, from[i]);
    to = lanes;
  }
};

/// to[indices[i], :] = the reduction of tensors[i]. All tensors are on to's device, contiguous, of dtype T; `to` is
/// [n, 2], contiguous float64: CompensatedSums.
template <class T, class R>
void multi_reduce(const char* name, const R& reducer, const TensorImpl& to, std::span<const TensorImpl* const> tensors,
                  std::span<const std::size_t> indices) {
  using Kernel = MultiReduceKernel<R, T>;
  if (tensors.empty()) return;
  const OperationEnd end;
  DeviceState& device = *to.storage->device;
  const StreamHandle stream = current_stream_handle(device);
  std::vector<MemoryAccess> accesses;
  accesses.reserve(2 * tensors.size());
  use_on(stream, to);
  auto rows = std::make_shared<std::vector<typename Kernel::Row>>();
  std::int64_t pieces = 0, elements = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorImpl& from = *tensors[i];
    auto* const result = reinterpret_cast<CompensatedSum*>(to.data()) + indices[i];
    rows->push_back({reinterpret_cast<const T*>(from.data()), from.numel, result, pieces});
    pieces += rows->back().pieces();
    elements += from.numel;
    use_on(stream, from);
    accesses.push_back({region_of(from), AccessKind::read});
    accesses.push_back({{result, sizeof *result, 1, sizeof *result}, AccessKind::write});
  }
  const Kernel kernel{reducer, std::move(rows)};
  device.backend.launch(stream, {name, 2 * double(elements), accesses}, in_all_forms(kernel));
}

}  // namespace lockstep
