// A convolution, or one of its gradients, as cuDNN is asked for it: images of two or three dimensions, all tensors
// dense in one layout. Functions of their arguments; safe from any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/cuda/cudnn/engines.h"
#include "runtime/fused.h"

namespace lockstep::gpu {

/// The roles of its tensors, which are their names in cuDNN's graph as well, less one.
enum class Role : std::uint8_t { image, window, result };

/// An operand of the FusedOp in its role. A convolution of one dimension is one of two with a height of 1.
struct ConvolutionTensor {
  Shape sizes, strides;  ///< As the operand has them.
  int operand = 0;
  bool in_place = false;  ///< Dense in the layout and aligned: cuDNN takes it as it is. Else it is laid out anew.
};

struct Convolution {
  static constexpr std::int64_t kAlignment = 16;  ///< Of all data, in bytes: below it cuDNN's best engines decline.

  FusedKind kind = FusedKind::convolution;
  DType dtype = kFloat32;
  bool channels_last = false;
  std::array<ConvolutionTensor, 3> tensors = {};  ///< By role.
  Shape stride = {}, padding = {}, dilation = {};
  int bias = -1;  ///< Its operand.

  ConvolutionTensor& operator[](Role role) { return tensors[std::size_t(role)]; }
  const ConvolutionTensor& operator[](Role role) const { return tensors[std::size_t(role)]; }
  Role written() const;
  /// Strides of a role's tensor, dense in the layout.
  Shape dense_strides(Role role) const;
  /// All that cuDNN's choice depends on.
  std::vector<std::int64_t> key() const;
};

/// Nothing for an operation that is none, for dtypes that differ or that cuDNN has not, and for tensors of no elements.
/// The layout is channels-last if an image is. Where `data` is given, its alignment counts.
std::optional<Convolution> describe_convolution(const FusedOp& op);
/// The same in the layout that is said.
Convolution in_layout(Convolution convolution, const FusedOp& op, bool channels_last);

/// The graph for it. Nothing if cuDNN does not support one.
std::optional<CudnnGraph> make_convolution_graph(const Convolution& convolution, cudnnHandle_t handle, int device);

}  // namespace lockstep::gpu
