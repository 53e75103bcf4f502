// The handle, its storage, and reading values on the host. Views and movement are ops.
#include <lockstep/tensor/tensor.h>

#include <algorithm>
#include <cstring>

#include "core/context.h"
#include "core/text.h"
#include "kernels/geometry.h"
#include "runtime/memory/pinned_allocator.h"
#include "tensor/copy.h"
#include "tensor/replay_values.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// Returns true if the caller held the last reference, which can be dropped without a write to the counter.
bool drop_reference(std::atomic<std::uint32_t>& references) noexcept {
  return references.load(std::memory_order_acquire) == 1 || references.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

std::string spelled(const Device& device) {
  return device.is_cpu() ? std::string("Device()") : text("Device::cuda(", device.index(), ')');
}

// Advises to move the input to the parameter's device. If the parameter is on the CPU, the user probably forgot to move
// its module, so the advice is to move that.
std::string advice_for_devices(const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return " of another simulation";
  const auto is_parameter = [](const Tensor& x) { return x.is_leaf() && x.requires_grad(); };
  if (is_parameter(a) != is_parameter(b)) {
    const Tensor& parameter = is_parameter(a) ? a : b;
    const Tensor& input = is_parameter(a) ? b : a;
    if (parameter.device().is_cpu())
      return text(": the parameter is on the CPU; move its module with .to(", spelled(input.device()),
                  ") (a parameter stays where it was made unless members() names its layer)");
    return text(": move the input to the parameter's device: x = x.to(", spelled(parameter.device()), ')');
  }
  return text(": move one of them with x.to(", spelled(a.device().is_cpu() ? b.device() : a.device()), ')');
}

// A contiguous tensor over the storage that make(bytes) returns.
template <class Make>
Tensor make_over(const Shape& sizes, DType dtype, const Make& make) {
  if (dtype > kFloat64) throw DTypeError(text("[empty] expected a dtype, got ", dtype));
  const std::int64_t numel = checked_elements("empty", sizes);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(numel, std::int64_t(size_of(dtype)), &bytes))
    throw ShapeError(text("[empty] expected a size in bytes that fits 64 bits, got ", sizes, " of ", dtype));
  auto impl = std::make_unique<TensorImpl>();
  impl->dtype = dtype;
  impl->numel = numel;
  impl->sizes = sizes;
  impl->strides = contiguous_strides(sizes);
  impl->storage = make(std::size_t(bytes));
  return Tensor(impl.release());
}

struct NoMemory final : TransientMemory {
  std::byte* bring() override {
    throw InvalidArgument("[DataParallel] internal error: a parameter without memory was used");
  }
  void use_on(const StreamHandle&) override {}
  void publish() override {}
  Tensor own_part(const TensorImpl&) const override { return {}; }
};

}  // namespace

Storage* Storage::make(DeviceState& device, std::size_t bytes, MayWait may_wait) {
  auto storage = std::make_unique<Storage>();
  const StreamHandle stream = current_stream_handle(device);
  storage->device = &device;
  storage->stream_id = stream.id;
  storage->bytes = bytes;
  storage->checkpoint = context().checkpoint;
  storage->allocation = device.allocator.allocate(bytes, stream, may_wait);
  if (const ReplayValues* const captured = context().replay_values) storage->made_in = captured->id();
  if (bytes == 0) ++device.empty_storages;
  return storage.release();
}

Storage* Storage::make_pinned(const char* op, std::size_t bytes) {
  const std::shared_ptr<DeviceSet> gpus = accelerators();
  if (gpus->count() == 0)
    throw InvalidArgument(text("[", op,
                               "] cannot pin memory without a GPU: leave pinning out where cuda::is_available() says "
                               "no (pinning only makes copies to GPUs faster)"));
  auto storage = std::make_unique<Storage>();
  storage->device = &device_state(Device());
  storage->bytes = bytes;
  storage->pinned = &gpus->pinned().allocate(std::max<std::size_t>(bytes, 1));
  storage->allocation.memory = storage->pinned->memory;
  return storage.release();
}

void Storage::release() noexcept {
  if (!drop_reference(references)) return;
  if (pinned)
    pinned->owner.free(*pinned);
  else if (allocation.block)
    device->allocator.free(allocation.block);
  else if (!transient)
    --device->empty_storages;
  delete this;
}

void throw_undefined(const char* op) {
  throw InvalidArgument(text("[", op, "] expected a tensor, got an undefined one"));
}

void throw_device_mismatch(const char* op, const Tensor& a, const Tensor& b) {
  throw DeviceMismatch(text("[", op, "] expected tensors on one device, got ", a.device(), " ", a.sizes(), " and ",
                            b.device(), " ", b.sizes(), advice_for_devices(a, b)));
}

Tensor make_tensor(DeviceState& device, const Shape& sizes, DType dtype, MayWait may_wait) {
  return make_over(sizes, dtype, [&](std::size_t bytes) { return Storage::make(device, bytes, may_wait); });
}

Tensor make_pinned(const char* op, const Shape& sizes, DType dtype) {
  return make_over(sizes, dtype, [&](std::size_t bytes) { return Storage::make_pinned(op, bytes); });
}

Tensor make_without_memory(DeviceState& device, const Shape& sizes, DType dtype) {
  return make_over(sizes, dtype, [&](std::size_t bytes) {
    auto storage = std::make_unique<Storage>();
    storage->device = &device;
    storage->bytes = bytes;
    storage->transient = std::make_unique<NoMemory>();
    return storage.release();
  });
}

bool is_without_memory(const Tensor& tensor) noexcept {
  return dynamic_cast<const NoMemory*>(tensor.impl()->storage->transient.get());
}

void wait_for_copies_from(PinnedBlock& block) { block.owner.wait(block); }

Tensor make_view(const Tensor& base, const Shape& sizes, const Shape& strides, std::int64_t offset) {
  const TensorImpl& from = *base.impl();
  auto impl = std::make_unique<TensorImpl>();
  impl->dtype = from.dtype;
  impl->numel = sizes.elements();
  impl->offset = impl->numel ? offset : 0;  // an empty storage may have no memory to point into
  impl->sizes = sizes;
  impl->strides = strides;
  impl->contiguous = is_dense(sizes, strides);
  from.storage->retain();
  impl->storage = from.storage;
  return Tensor(impl.release());
}

void swap_memory(Storage& a, Storage& b) noexcept {
  std::swap(a.transient, b.transient);
  std::swap(a.allocation, b.allocation);
  std::swap(a.bytes, b.bytes);
  std::swap(a.stream_id, b.stream_id);
  std::swap(a.pinned, b.pinned);
}

bool is_sole_user(const Tensor& tensor) noexcept {
  const Storage& storage = *tensor.impl()->storage;
  std::uint32_t tensors = 0;
  for (const TensorImpl* impl = tensor.impl(); impl; impl = impl->base.impl(), ++tensors)
    if (impl->storage != &storage || impl->references.load(std::memory_order_acquire) != 1) return false;
  if (storage.references.load(std::memory_order_acquire) != tensors) return false;
  const Block* const block = storage.allocation.block;  // null if the memory is not the device's allocator's
  return block && !storage.transient && storage.stream_id == current_stream_handle(*storage.device).id &&
         !storage.device->allocator.is_used_elsewhere(block);
}

bool is_dense(const Shape& sizes, const Shape& strides) noexcept {
  std::int64_t expected = 1;
  for (int i = sizes.rank() - 1; i >= 0; --i) {
    if (sizes[i] != 1 && strides[i] != expected) return sizes.elements() == 0;
    expected *= sizes[i];
  }
  return true;
}

Region region_of(const TensorImpl& tensor) {
  const std::size_t element = size_of(tensor.dtype);
  if (tensor.contiguous || tensor.numel == 0)
    return {tensor.data(), std::size_t(tensor.numel) * element, 1, std::size_t(tensor.numel) * element};
  Geometry<1> g;
  g.sizes = tensor.sizes;
  g.strides = {tensor.strides};
  for (int i = g.sizes.rank() - 1; i >= 0; --i)
    if (g.strides[0][i] == 0) {  // expanded: repeats the same bytes
      g.sizes.erase(i);
      g.strides[0].erase(i);
    }
  for (int i = 1; i < g.sizes.rank(); ++i)  // sorts by stride, which changes no covered byte
    for (int k = i; k > 0 && g.strides[0][k] > g.strides[0][k - 1]; --k) {
      std::swap(g.strides[0][k], g.strides[0][k - 1]);
      std::swap(g.sizes[k], g.sizes[k - 1]);
    }
  collapse(g);
  if (g.sizes.rank() == 0) return {tensor.data(), element, 1, element};
  const int last = g.sizes.rank() - 1;
  const bool rows = last == 1 && g.strides[0][1] == 1 && g.strides[0][0] >= g.sizes[1];
  if (rows)
    return {tensor.data(), std::size_t(g.sizes[1]) * element, std::size_t(g.sizes[0]),
            std::size_t(g.strides[0][0]) * element};
  if (last == 0) return {tensor.data(), element, std::size_t(g.sizes[0]), std::size_t(g.strides[0][0]) * element};
  std::size_t end = element;
  for (int i = 0; i <= last; ++i) end += std::size_t((g.sizes[i] - 1) * g.strides[0][i]) * element;
  return {tensor.data(), end, 1, end};
}

void Tensor::acquire() const noexcept {
  if (impl_) impl_->references.fetch_add(1, std::memory_order_relaxed);
}

void Tensor::release() noexcept {
  if (drop_reference(impl_->references)) delete impl_;
}

const Shape& Tensor::sizes() const { return impl_of("sizes", *this).sizes; }
const Shape& Tensor::strides() const { return impl_of("strides", *this).strides; }
std::int64_t Tensor::size(std::int64_t dim) const {
  const Shape& sizes = impl_of("size", *this).sizes;
  if (sizes.empty()) throw ShapeError("[size] expected a tensor with dimensions, got a 0-dim one");
  return sizes[wrap_dim("size", dim, sizes.rank())];
}
std::int64_t Tensor::numel() const { return impl_of("numel", *this).numel; }
int Tensor::checked_dim(const char* op, std::int64_t dim) const {
  if (sizes().empty()) throw ShapeError(text("[", op, "] expected a tensor with dimensions, got a 0-dim one"));
  return wrap_dim(op, dim, sizes().rank());
}
DType Tensor::dtype() const { return impl_of("dtype", *this).dtype; }
Device Tensor::device() const { return impl_of("device", *this).storage->device->device; }
bool Tensor::is_pinned() const { return impl_of("is_pinned", *this).storage->pinned != nullptr; }
bool Tensor::is_contiguous() const { return impl_of("is_contiguous", *this).contiguous; }
std::uint64_t Tensor::version() const {
  const Storage& storage = *impl_of("version", *this).storage;
  if (storage.transient) [[unlikely]]
    return storage.transient->version(storage);
  return storage.version.load(std::memory_order_relaxed);
}

Tensor::Number Tensor::item_number() const {
  const TensorImpl& impl = impl_of("item", *this);
  if (impl.numel != 1) throw ShapeError(text("[item] expected one element, got shape ", impl.sizes));
  const bool integral = !is_floating(impl.dtype);
  const Tensor host = copied(*this, device_state(Device()), integral ? kInt64 : kFloat64);
  Number number{0, 0, integral};
  if (integral)
    std::memcpy(&number.integer, host.impl()->data(), sizeof number.integer);
  else
    std::memcpy(&number.real, host.impl()->data(), sizeof number.real);
  return number;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const TensorImpl& impl = impl_of("to_vector", *this);
  if (impl.dtype != kDTypeOf<T>)
    throw DTypeError(text("[to_vector] the tensor is ", impl.dtype, ", but to_vector<T>() was called for ", kDTypeOf<T>,
                          ": use the matching C++ type, or convert with .to(dtype)"));
  DeviceState& cpu = device_state(Device());
  const Tensor host = impl.storage->device == &cpu && impl.contiguous ? *this : copied(*this, cpu, impl.dtype);
  const auto* values = reinterpret_cast<const T*>(host.impl()->data());
  return std::vector<T>(values, values + impl.numel);
}
template LOCKSTEP_API std::vector<bool> Tensor::to_vector() const;
template LOCKSTEP_API std::vector<std::uint8_t> Tensor::to_vector() const;
template LOCKSTEP_API std::vector<std::int32_t> Tensor::to_vector() const;
template LOCKSTEP_API std::vector<std::int64_t> Tensor::to_vector() const;
template LOCKSTEP_API std::vector<Half> Tensor::to_vector() const;
template LOCKSTEP_API std::vector<BFloat16> Tensor::to_vector() const;
template LOCKSTEP_API std::vector<float> Tensor::to_vector() const;
template LOCKSTEP_API std::vector<double> Tensor::to_vector() const;

void Tensor::check_accessor(int rank) const {
  const TensorImpl& impl = impl_of("accessor", *this);
  if (!device().is_cpu()) throw InvalidArgument(text("[accessor] expected a tensor on the CPU, got one on ", device()));
  if (impl.sizes.rank() != rank) throw ShapeError(text("[accessor] expected ", rank, " dimensions, got ", impl.sizes));
}

void* Tensor::raw_data(DType expected) const {
  const TensorImpl& impl = impl_of("data", *this);
  if (impl.dtype != expected)
    throw DTypeError(text("[data] the tensor is ", impl.dtype, ", but data<T>() was called for ", expected,
                          ": use the matching C++ type, or convert with .to(dtype)"));
  if (const auto& memory = impl.storage->transient; memory && !memory->stays())
    throw InvalidArgument(
        "[data] cannot return a pointer to a sharded parameter or gradient, because its memory is dropped and fetched "
        "again: call data() of a clone()");
  wait_for_copies_from(impl);  // the caller may write
  return impl.data();
}

void Tensor::record_stream(const Stream& stream) const {
  Storage& storage = *impl_of("record_stream", *this).storage;
  if (stream.device() != storage.device->device)
    throw DeviceMismatch(
        text("[record_stream] expected a stream of ", storage.device->device, ", got one of ", stream.device()));
  if (storage.transient) {
    const OperationEnd end;
    storage.transient->bring();
    return storage.transient->use_on(StreamAccess::handle(stream));
  }
  use_in_capture(storage);
  if (storage.allocation.block)
    storage.device->allocator.record_stream(storage.allocation.block, StreamAccess::handle(stream));
}

}  // namespace lockstep
