// cuDNN's descriptors, owned: made, filled with attributes, finalized, and then read. All of cuDNN's graph interface is
// these and their execution. Not safe from several threads.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/cuda/vendor_tables.h"

namespace lockstep::gpu {

/// Throws BackendError with the call, its code, cuDNN's last words and the device, unless it succeeded.
void check(cudnnStatus_t result, const char* api, int device);

/// Destroys what cuDNN has made, by a function of its table. Never throws: the table was filled before.
template <auto destroy>
struct DestroyCudnn {
  void operator()(auto* handle) const noexcept { static_cast<void>((cudnn().*destroy)(handle)); }
};

using CudnnHandle = std::unique_ptr<cudnnContext, DestroyCudnn<&Cudnn::cudnnDestroy>>;

/// How cuDNN names the type of an attribute.
template <class T>
constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return CUDNN_TYPE_DOUBLE;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}

class CudnnDescriptor {
 public:
  /// Errors of it name the device.
  CudnnDescriptor(cudnnBackendDescriptorType_t type, int device);

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set(name, attribute_type<T>(), 1, &value);
  }
  template <class T>
  void set_all(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set(name, attribute_type<T>(), std::int64_t(values.size()), values.data());
  }
  /// A descriptor as an attribute has to outlive this one.
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);

  /// False if cuDNN does not support what was described. Throws BackendError for all other failures.
  [[nodiscard]] bool finalize();
  /// False for a failure of any kind.
  [[nodiscard]] bool try_finalize() noexcept;

  /// Up to `most` values of an attribute.
  template <class T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    values.resize(std::size_t(get(name, attribute_type<T>(), most, values.data())));
    return values;
  }
  /// Into a descriptor that was made for it.
  void get(cudnnBackendAttributeName_t name, CudnnDescriptor& value) const;
  /// All descriptors of an attribute.
  std::vector<CudnnDescriptor> get_all(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const;

  cudnnBackendDescriptor_t get() const noexcept { return owned_.get(); }

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                   void* values) const;

  int device_;
  std::unique_ptr<void, DestroyCudnn<&Cudnn::cudnnBackendDestroyDescriptor>> owned_;
};

}  // namespace lockstep::gpu
