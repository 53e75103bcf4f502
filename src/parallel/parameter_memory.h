// The memory of one parameter that lies in ParameterUnits, on one device, and of its 16-bit form. As thread-safe as
// the units.
#pragma once

#include <memory>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "parallel/parameter_units.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

// It keeps the units alive, so that a parameter may outlive its model.
class ParameterUnits::Memory final : public TransientMemory {
 public:
  Memory(std::shared_ptr<ParameterUnits> units, const Place& where, DType its_dtype, const Storage* its)
      : place(where), dtype(its_dtype), storage(its), units_(std::move(units)) {}
  ~Memory() override { units_->forget(*this); }
  std::byte* bring() override { return bring_as(dtype); }
  void use_on(const StreamHandle& stream) override { use_as(dtype, stream); }
  void publish() override { units_->publish(*this); }
  Tensor own_part(const TensorImpl&) const override { return units_->own_part(*this); }
  Tensor converted(const Tensor& tensor, DType to) const override;

  std::byte* bring_as(DType to) { return units_->bring(*this, to); }
  void use_as(DType to, const StreamHandle& stream) { units_->use_on(*this, to, stream); }

  /// Null if the tensor does not lie in these units.
  static Memory* of(const Tensor& parameter, const ParameterUnits& units) {
    auto* const memory = dynamic_cast<Memory*>(parameter.impl()->storage->transient.get());
    return memory && memory->units_.get() == &units ? memory : nullptr;
  }

  Place place;  // guarded by the units' mutex
  const DType dtype;
  const Storage* const storage;

 private:
  const std::shared_ptr<ParameterUnits> units_;
};

// It keeps the parameter alive.
class ParameterUnits::ConvertedMemory final : public TransientMemory {
 public:
  ConvertedMemory(const Tensor& parameter, DType dtype) : parameter_(parameter), dtype_(dtype) {}
  std::byte* bring() override { return memory().bring_as(dtype_); }
  void use_on(const StreamHandle& stream) override { memory().use_as(dtype_, stream); }
  void publish() override {}
  Tensor own_part(const TensorImpl&) const override { return {}; }
  std::uint64_t version(const Storage&) const override { return parameter_.version(); }

 private:
  Memory& memory() const {
    if (auto* const memory = dynamic_cast<Memory*>(parameter_.impl()->storage->transient.get())) return *memory;
    throw InvalidArgument(text("[DataParallel] expected a parameter of shape ", parameter_.sizes(),
                               " to stay sharded between forward and backward, but another model without "
                               "Shard::parameters has taken it: run forward again"));
  }

  const Tensor parameter_;
  const DType dtype_;
};

inline Tensor ParameterUnits::Memory::converted(const Tensor& tensor, DType to) const {
  const TensorImpl& impl = *tensor.impl();
  const auto elements = std::int64_t(impl.storage->bytes / size_of(impl.dtype));
  if (elements == 0 || !impl.contiguous) return {};  // as a cast's result, the form is contiguous
  const Tensor all = make_without_memory(*impl.storage->device, {elements}, to);
  all.impl()->storage->transient = std::make_unique<ConvertedMemory>(tensor, to);
  return make_view(all, impl.sizes, impl.strides, impl.offset);
}

}  // namespace lockstep
