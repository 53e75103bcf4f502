#include <lockstep/data/device_copies.h>

#include <lockstep/core/error.h>

#include "runtime/registry.h"

namespace lockstep::data {

struct DeviceCopies::Pooled {
  Stream stream;
  std::weak_ptr<DeviceSet> of;  // the device set in which the stream was made
};

DeviceCopies::DeviceCopies(Device device) : device_(device) {}

DeviceCopies::~DeviceCopies() = default;

Stream DeviceCopies::stream() {
  const std::shared_ptr<DeviceSet> devices = accelerators();
  if (!pooled_ || pooled_->of.lock() != devices)
    pooled_ = std::make_unique<Pooled>(Pooled{Stream::from_pool(device_), devices});
  return pooled_->stream;
}

Tensor DeviceCopies::copy(const Tensor& tensor) {
  if (device_.is_cpu()) return tensor.to(device_);
  const StreamGuard guard(stream());
  return tensor.to(device_);
}

std::optional<cuda::Event> DeviceCopies::mark() {
  if (device_.is_cpu()) return std::nullopt;
  return stream().record();
}

namespace detail {

void throw_hides_tensors() {
  throw InvalidArgument(
      "[DataLoader] cannot find the tensors in the batch type, to copy them to the device. Give the struct a members() "
      "function, or use a tuple of tensors");
}

}  // namespace detail
}  // namespace lockstep::data
