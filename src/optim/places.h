// Where a parameter lives: its primary first, then its replicas. All that optim does to a parameter or to its gradient
// it does in each of its places, to the place's share.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "autograd/node.h"

namespace lockstep::optim {

using autograd::Share;

inline std::size_t place_count(const Tensor& parameter) noexcept {
  const autograd::Meta* meta = autograd::meta_of(parameter);
  return meta ? 1 + meta->replicas.size() : 1;
}

inline const Tensor& place(const Tensor& parameter, std::size_t k) noexcept {
  return k == 0 ? parameter : autograd::meta_of(parameter)->replicas[k - 1];
}

/// Those elements of a contiguous tensor, flat.
inline Tensor part(const Tensor& tensor, Share share) {
  return make_view(tensor, {share.end - share.begin}, {1}, tensor.impl()->offset + share.begin);
}

/// What a place updates, and keeps state of: all elements, unless the places divide them.
inline Share share_of(const Tensor& place) noexcept {
  const autograd::Meta* meta = autograd::meta_of(place);
  return meta && meta->share ? *meta->share : Share{0, place.impl()->numel};
}

/// What of `tensor`, which is like the place, is in the place's share: the tensor itself if nothing is divided.
inline Tensor in_share(const Tensor& tensor, const Tensor& place) {
  const autograd::Meta* meta = autograd::meta_of(place);
  return meta && meta->share ? part(tensor, *meta->share) : tensor;
}

/// Adds those of all places, each once.
inline void add_devices(std::vector<Device>& devices, std::span<const Tensor> parameters) {
  for (const Tensor& parameter : parameters)
    for (std::size_t k = 0; k < place_count(parameter); ++k)
      if (const Device device = place(parameter, k).device(); std::ranges::find(devices, device) == devices.end())
        devices.push_back(device);
}

/// Null if there is none.
inline const Tensor* gradient_of(const Tensor& tensor) noexcept {
  const autograd::Meta* meta = autograd::meta_of(tensor);
  return meta && meta->grad.defined() ? &meta->grad : nullptr;
}

/// To be called before all places are used: gradients and values are the same there, or each place's share is. Throws
/// AutogradError during a backward of their model.
void settle(std::span<const Tensor> parameters);

/// The gradient in place k, contiguous. Throws AutogradError naming the parameter if it is not there, or is not one of
/// that tensor.
Tensor gradient_in(const char* op, std::size_t index, const Tensor& parameter, std::size_t k);

inline void count_change(const TensorImpl& tensor) noexcept {
  tensor.storage->version.fetch_add(1, std::memory_order_relaxed);
}

/// Tensors of one device and dtype.
struct TensorGroup {
  DeviceState* device;
  DType dtype;
  std::vector<const TensorImpl*> tensors;
  std::vector<std::size_t> positions;  ///< Of the tensors in the list they come from.
};
/// In order of first appearance.
std::vector<TensorGroup> by_device_and_dtype(std::span<const Tensor> tensors);

/// All gradients, settled, in every place that place's share, contiguous, to be changed. One that was not is replaced.
std::vector<Tensor> gradients_everywhere(const char* op, std::span<const Tensor> parameters);

}  // namespace lockstep::optim
