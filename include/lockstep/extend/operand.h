// Between tensors and kernels from outside of the library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/runtime/kernel.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::extend {

/// A tensor as a kernel sees it.
struct Operand {
  std::byte* data = nullptr;  ///< The first element.
  /// In elements.
  Shape sizes, strides;    ///< Strides in elements.
  std::int64_t numel = 0;  ///< Number of elements.
  bool contiguous = true;  ///< Elements lie in row-major order without holes.
};

/// The tensor must live as long as it is enqueued. Throws InvalidArgument naming `op` for an undefined one.
LOCKSTEP_API Operand operand_of(const char* op, const Tensor& tensor);

/// The dtype of all tensors. Throws InvalidArgument for an undefined one, DeviceMismatch, DTypeError unless all have
/// one floating dtype.
LOCKSTEP_API DType check_operands(const char* op, std::span<const Tensor* const> tensors);

/// The tensors in the dtype that all promote to, of 0-dim ones only where none has dimensions. Throws as
/// check_operands(), of dtypes for one that is not floating alone.
LOCKSTEP_API void promote_all(const char* op, std::span<Tensor> tensors);

/// A new tensor of the shape that all broadcast to, uninitialized: channels-last where one of that shape is. Throws
/// ShapeError.
LOCKSTEP_API Tensor make_result(const char* op, std::span<const Tensor* const> tensors);

/// What launch() is told of a kernel.
struct Launch {
  const char* name;                             ///< A literal.
  double flops = 0;                             ///< Floating-point operations, for the trace.
  std::span<const Tensor*const> written, read;  ///< All live on one device.
  bool has_device_form = false;                 ///< Whether the kernel is compiled for GPUs.
};

/// Enqueues a kernel on the current stream of the tensors' device. Throws InvalidArgument where a GPU needs a kernel
/// that is compiled for GPUs.
LOCKSTEP_API void enqueue(const Launch& launch, KernelRef kernel);

}  // namespace lockstep::extend
