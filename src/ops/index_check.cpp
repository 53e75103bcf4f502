#include "ops/index_check.h"

#include "core/text.h"
#include "kernels/fail.h"
#include "kernels/launch.h"

namespace lockstep {
namespace {

struct WrongIndex {
  const char* op;
  std::int64_t size, got;
  void operator()() const {
    throw InvalidArgument(text("[", op, "] expected indices from 0 to ", size - 1, ", got ", got));
  }
};

struct CheckIndex {
  const char* op;
  const std::int64_t* index;
  Geometry<1> geometry;
  std::int64_t size;
  std::optional<std::int64_t> ignored;

  void operator()(const KernelContext&) const {
    for (std::int64_t i = 0; i < geometry.numel; ++i) item(i);
  }

  std::int64_t items() const { return geometry.numel; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::int64_t got = index[offsets_at(geometry, i)[0]];
    if ((got < 0 || got >= size) && got != ignored) fail(WrongIndex{op, size, got});
  }
};

}  // namespace

Tensor as_index(const char* op, const Tensor& index) {
  const DType dtype = impl_of(op, index).dtype;
  if (dtype != kInt64 && dtype != kInt32)
    throw DTypeError(text("[", op, "] expected indices of int32 or int64, got ", dtype));
  return index.to(kInt64);
}

void check_index(const char* op, const Tensor& index, std::int64_t size, std::optional<std::int64_t> ignored) {
  const TensorImpl& impl = *index.impl();
  if (impl.numel == 0) return;
  DeviceState& device = *impl.storage->device;
  const StreamHandle stream = current_stream_handle(device);
  const MemoryAccess access = {region_of(impl), AccessKind::read};
  const OperationEnd end;
  use_on(stream, index);
  const CheckIndex kernel{op, reinterpret_cast<const std::int64_t*>(impl.data()), make_geometry(impl.sizes, impl), size,
                          ignored};
  device.backend.launch(stream, {"check_index", 0, {&access, 1}}, in_all_forms(kernel));
}

}  // namespace lockstep
