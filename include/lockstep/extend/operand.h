// The interface between tensors and kernels that are compiled outside of the library.
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
  Shape sizes, strides;       ///< Strides in elements.
  std::int64_t numel = 0;     ///< Number of elements.
  bool contiguous = true;     ///< Elements lie in row-major order without holes.
};

/// Returns the operand of a tensor, which must live until the kernel is enqueued. Throws InvalidArgument naming `op` if
/// the tensor is undefined.
LOCKSTEP_API Operand operand_of(const char* op, const Tensor& tensor);

/// The common dtype of all tensors. Throws InvalidArgument for an undefined tensor, DeviceMismatch, and DTypeError
/// unless all tensors have the same floating dtype.
LOCKSTEP_API DType check_operands(const char* op, std::span<const Tensor* const> tensors);

/// Converts the tensors to the dtype to which all promote; 0-dim tensors take part in promotion only if all tensors are
/// 0-dim. Throws like check_operands(), but DTypeError only for a dtype that is not floating.
LOCKSTEP_API void promote_all(const char* op, std::span<Tensor> tensors);

/// A new uninitialized tensor of the shape to which all broadcast; channels-last if one of them has this shape and is
/// channels-last. Throws ShapeError if the shapes do not broadcast.
LOCKSTEP_API Tensor make_result(const char* op, std::span<const Tensor* const> tensors);

/// The description of a kernel for enqueue().
struct Launch {
  const char* name;                             ///< A string literal.
  double flops = 0;                             ///< Floating-point operations, for the trace.
  std::span<const Tensor*const> written, read;  ///< Tensors, all on one device.
  bool has_device_form = false;                 ///< True if the kernel is compiled for GPUs.
};

/// Enqueues a kernel on the current stream of the tensors' device. Throws InvalidArgument if a GPU needs a kernel that
/// is not compiled for GPUs.
LOCKSTEP_API void enqueue(const Launch& launch, KernelRef kernel);

}  // namespace lockstep::extend
