#include "tensor/copy.h"

#include <lockstep/kernels/multi_map.h>

#include "core/context.h"
#include "core/text.h"
#include "kernels/map/map.h"
#include "kernels/transpose/transpose.h"
#include "runtime/memory/pinned_allocator.h"
#include "tensor/deferred_memory.h"

namespace lockstep {
namespace {

struct Assign {
  template <class T>
  LOCKSTEP_HD void operator()(T& to, const T& from) const {
    to = from;
  }
};

bool transpose(const Tensor& to, const Tensor& from) {
  return visit_bits(to.dtype(), [&]<class T>() {
    const auto kernel = as_transpose<T>(*to.impl(), *from.impl());
    if (kernel) launch("copy", 0, to, std::array{&from}, *kernel);
    return kernel.has_value();
  });
}

void convert(const Tensor& to, const Tensor& from) {
  if (to.dtype() == from.dtype() && transpose(to, from)) return;
  const auto& forms = visit_all(
      to.dtype(), [&]<class To>() -> auto& {
        return visit_all(
            from.dtype(), [&]<class From>() -> auto& { return map_forms<Identity, To, From>(); });
      });
  map("copy", 0, forms, Identity(), to, from);
}

// A GPU's copy engine takes as long for a short row as for a long row, so a kernel copies short rows.
bool has_short_rows(const Copy& copy) { return copy.rows > 1 && copy.row_bytes < (1 << 14); }

// Describes the copy as rows of bytes, if both layouts allow it; else returns false, and `copy` is meaningless.
bool as_rows(const TensorImpl& to, const TensorImpl& from, Copy& copy) {
  Geometry<2> g = make_geometry(to.sizes, to, from);
  if (g.sizes.rank() > 2) return false;
  const int last = g.sizes.rank() - 1;
  if (last >= 0 && (g.strides[0][last] != 1 || g.strides[1][last] != 1)) return false;
  const std::size_t element = size_of(to.dtype);
  copy.to = to.data();
  copy.from = from.data();
  copy.row_bytes = element * std::size_t(last >= 0 ? g.sizes[last] : 1);
  copy.rows = 1;
  copy.to_pitch = copy.from_pitch = copy.row_bytes;
  if (last < 1) return true;
  copy.rows = std::size_t(g.sizes[0]);
  copy.to_pitch = element * std::size_t(g.strides[0][0]);
  copy.from_pitch = element * std::size_t(g.strides[1][0]);
  return copy.to_pitch >= copy.row_bytes && copy.from_pitch >= copy.row_bytes;  // false for a broadcast
}

void transfer(const Tensor& to, const Tensor& from, Copy& copy) {
  DeviceState& target = *to.impl()->storage->device;
  DeviceState& source = *from.impl()->storage->device;
  copy.to_device = target.device.is_cpu() ? -1 : target.device.index();
  copy.from_device = source.device.is_cpu() ? -1 : source.device.index();
  if (&target == &source || source.device.is_cpu() || target.device.is_cpu()) {
    DeviceState& worker = target.device.is_cpu() ? source : target;
    const StreamHandle stream = current_stream_handle(worker);
    use_on(stream, worker.device == target.device ? to : from);
    if (&target == &source) use_on(stream, from);
    PinnedBlock* const pinned = from.impl()->storage->pinned;
    if (pinned && &pinned->owner.backend() == &worker.backend) {  // memory pinned by another backend is pageable here
      copy.pinned = true;
      pinned->owner.copy(stream, copy, *pinned);
    } else {
      worker.backend.copy(stream, copy);
    }
    return;
  }
  // Between two GPUs: the copy, on the source's stream, waits for all work enqueued so far on the destination's stream.
  const Stream to_stream = current_stream(target.device), from_stream = current_stream(source.device);
  use_on(StreamAccess::handle(to_stream), to);
  use_on(StreamAccess::handle(from_stream), from);
  from_stream.wait(to_stream.record());
  source.backend.copy(StreamAccess::handle(from_stream), copy);
  // All later work on the destination's stream waits for the copy.
  to_stream.wait(from_stream.record());
}

Tensor dense_as(const Tensor& from, DType dtype) {
  if (from.dtype() == dtype && from.is_contiguous()) return from;
  return copied(from, *from.impl()->storage->device, dtype);
}

}  // namespace

void copy_values(const Tensor& to, const Tensor& from) {
  TensorImpl& target = impl_of("copy", to);
  TensorImpl& source = impl_of("copy", from);
  if (target.sizes != source.sizes && broadcast("copy", target.sizes, source.sizes) != target.sizes)
    throw ShapeError(text("[copy] expected a source that broadcasts to ", target.sizes, ", got ", source.sizes));
  if (target.numel == 0) return;
  if (const Tensor made = without_deferring(from); !made.is_same(from)) return copy_values(to, made);
  const OperationEnd end;
  wait_for_copies_from(target);
  const bool same_device = target.storage->device == source.storage->device;
  Copy copy;
  const bool by_grids = same_device && target.storage->device->backend.launches_grids();
  if (target.dtype == source.dtype && as_rows(target, source, copy) && !(by_grids && has_short_rows(copy)))
    return transfer(to, from, copy);
  if (same_device) return convert(to, from);

  // Makes the values contiguous on the source's device, transfers them, and rearranges them on the destination's.
  const Tensor dense = dense_as(from, target.dtype);
  if (as_rows(target, *dense.impl(), copy)) return transfer(to, dense, copy);
  const Tensor landed = make_tensor(*target.storage->device, source.sizes, target.dtype);
  as_rows(*landed.impl(), *dense.impl(), copy);
  transfer(landed, dense, copy);
  convert(to, landed);
}

void copy_together(std::span<const Tensor> to, std::span<const Tensor> from) {
  std::vector<MultiRow<2>> pairs;
  for (std::size_t i = 0; i < to.size(); ++i) pairs.push_back({to[i].impl(), from[i].impl()});
  visit_bits(to[0].dtype(), [&]<class T>() {
    multi_map<T, const T>("copy", 0, Assign(), *to[0].impl()->storage->device, std::span<const MultiRow<2>>(pairs));
  });
}

Tensor copied(const Tensor& from, DeviceState& device, DType dtype) {
  if (context().defers_init && device.device.is_cpu() && from.dtype() == dtype)
    if (Tensor copy = copy_deferred(from); copy.defined()) return copy;
  Tensor result = make_tensor(device, from.sizes(), dtype);
  copy_values(result, from);
  return result;
}

}  // namespace lockstep
