// The fake cuDNN's descriptors, and their convolutions, computed on the host.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "cuda/fake/fake_cuda.h"

namespace lockstep::fake {

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<char> bytes;
};

// A descriptor: attributes by number.
struct CudnnObject {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  int engine = -1;  // only of configurations and engines
  std::map<int, Attribute> attributes = {};

  bool has(int name) const { return attributes.contains(name); }
  template <class T>
  std::vector<T> all(int name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(std::size_t(found->second.count));
    std::memcpy(values.data(), found->second.bytes.data(), found->second.bytes.size());
    return values;
  }
  template <class T>
  T get(int name) const {
    const std::vector<T> values = all<T>(name);
    return values.empty() ? T() : values.front();
  }
  const CudnnObject& child(int name) const { return *static_cast<const CudnnObject*>(get<void*>(name)); }
};

// An operation's attributes. Its tensors are x, w and y of the convolution, of which `written` is the output.
struct ConvolutionNames {
  int alpha, beta, convolution;
  std::array<int, 3> tensors;
  std::size_t written;
};
const ConvolutionNames* names_of(const CudnnObject& operation);

/// Checks an operation against the requirements of cuDNN's documentation.
cudnnStatus_t check_convolution(const CudnnObject& operation);
/// Computes a convolution, summing in float64 and in index order.
void convolve(const CudnnObject& operation, const std::array<void*, 3>& data);
/// The bytes from the first element of a tensor to the end of its last one.
std::size_t extent_of(const CudnnObject& tensor);

}  // namespace lockstep::fake
