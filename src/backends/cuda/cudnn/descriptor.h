// Owned cuDNN backend descriptors: created, filled with attributes, finalized, then read. cuDNN's graph API consists of
// these descriptors and their execution. Not thread-safe.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cuda/vendor_tables.h"

namespace lockstep::gpu {

/// Throws BackendError with the call, its code, cuDNN's last error message and the device, unless the result is
/// success.
void check(cudnnStatus_t result, const char* api, int device);

using CudnnHandle = std::unique_ptr<cudnnContext, DestroyBy<cudnn, &Cudnn::cudnnDestroy>>;

/// cuDNN's name for the type of an attribute.
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
  /// Creates an empty descriptor. The errors of its functions name `device`.
  CudnnDescriptor(cudnnBackendDescriptorType_t type, int device);

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set(name, attribute_type<T>(), 1, &value);
  }
  template <std::ranges::contiguous_range Values>
  void set_all(cudnnBackendAttributeName_t name, const Values& values) {
    set(name, attribute_type<std::ranges::range_value_t<Values>>(), std::int64_t(std::ranges::size(values)),
        std::ranges::data(values));
  }
  /// Sets an attribute to another descriptor, which must outlive this one.
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);

  /// Returns false if cuDNN does not support the description. Throws BackendError for all other failures.
  [[nodiscard]] bool finalize();
  /// Returns false for a failure of any kind.
  [[nodiscard]] bool try_finalize() noexcept;

  /// Returns up to `most` values of an attribute.
  template <class T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    values.resize(std::size_t(get(name, attribute_type<T>(), most, values.data())));
    return values;
  }
  /// Reads an attribute that is a descriptor into `value`, which must have been created with that type.
  void get(cudnnBackendAttributeName_t name, CudnnDescriptor& value) const;
  /// Returns all descriptors of an attribute.
  std::vector<CudnnDescriptor> get_all(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const;

  cudnnBackendDescriptor_t get() const noexcept { return owned_.get(); }

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                   void* values) const;

  int device_;
  std::unique_ptr<void, DestroyBy<cudnn, &Cudnn::cudnnBackendDestroyDescriptor>> owned_;
};

}  // namespace lockstep::gpu
