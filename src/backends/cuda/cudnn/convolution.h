// A convolution or one of its gradients, described for cuDNN: two or three spatial dimensions, all tensors dense in one
// layout. Functions of their arguments; safe from any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cuda/cudnn/engines.h"
#include "runtime/fused_ops/fused.h"

namespace lockstep::gpu {

/// The roles of the tensors; role + 1 is the tensor's unique id in cuDNN's graph.
enum class Role : std::uint8_t { image, window, result };

/// The operand of the FusedOp that has a role. A one-dimensional convolution becomes two-dimensional with height 1.
struct ConvolutionTensor {
  Shape sizes, strides;  ///< As in the operand.
  int operand = 0;
  bool in_place = false;  ///< True if the operand is dense in the layout and aligned, so that no copy is needed.
};

struct Convolution {
  static constexpr std::int64_t kAlignment = 16;  ///< Bytes. cuDNN's best engines do not support less aligned data.

  FusedKind kind = FusedKind::convolution;
  DType dtype = kFloat32;
  bool channels_last = false;
  std::array<ConvolutionTensor, 3> tensors = {};  ///< By role.
  Shape stride = {}, padding = {}, dilation = {};
  int bias = -1;  ///< Index of its operand, or -1.

  ConvolutionTensor& operator[](Role role) { return tensors[std::size_t(role)]; }
  const ConvolutionTensor& operator[](Role role) const { return tensors[std::size_t(role)]; }
  Role written() const;
  /// Strides of a role's tensor that is dense in the layout.
  Shape dense_strides(Role role) const;
  /// Everything that cuDNN's choice of an engine depends on.
  std::vector<std::int64_t> key() const;
};

/// Returns nullopt if op is not a convolution, its dtypes differ or cuDNN does not support them, or a tensor is empty.
/// The layout is channels-last if the image or the result is. A tensor with a non-null data pointer is in_place only if
/// the pointer is aligned.
std::optional<Convolution> describe_convolution(const FusedOp& op);
/// Returns the convolution in the given layout.
Convolution in_layout(Convolution convolution, const FusedOp& op, bool channels_last);

/// Returns the graph of the convolution, or nullopt if cuDNN does not support it.
std::optional<CudnnGraph> make_convolution_graph(const Convolution& convolution, cudnnHandle_t handle, int device);

}  // namespace lockstep::gpu
