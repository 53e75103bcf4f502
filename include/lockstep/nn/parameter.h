// Parameters and buffers: tensors that belong to a module. As values they copy what they hold, unlike Tensor,
// which shares it; so copying a module copies its state. Copies are asked for: Parameter(other), or copy(other).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include <lockstep/core/copied_if_asked.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::nn {

/// A tensor with value semantics. Copying copies the elements (to another device inside a CopyTo scope). Its
/// identity as a Tensor survives place() and assignment of another one of its shape and dtype: handles to it, as
/// optimizers hold, stay valid. Moved into it, or assigned another shape or dtype, it becomes another tensor.
class LOCKSTEP_API State : public Tensor {
 public:
  /// Moves the elements to a device or dtype in place; a gradient moves along.
  void place(Device device);
  void convert(DType dtype);  ///< To another dtype, in place. Throws as reset().
  /// Takes over the array of `value`, which may have another shape, dtype and device. An accumulated gradient is
  /// dropped. If nothing was held, holds `value` itself. Throws AutogradError for a replica's, which is no leaf, and
  /// DTypeError for integers in the place of what requires a gradient.
  void reset(const Tensor& value);

 protected:
  State() = default;
  State(const Tensor& value, bool requires_grad);
  State(const State& other);
  State(State&&) noexcept = default;
  /// Copies elements: see the description of the class.
  State& operator=(const State& other) &;
  /// See the description of the class.
  State& operator=(State&&) & noexcept = default;
  ~State() = default;
};

struct ParameterOptions {
  bool requires_grad = true;  ///< Is trained. False for a parameter that is not, of any dtype.
};

/// A tensor that training changes: requires a gradient unless told otherwise.
class LOCKSTEP_API Parameter : public State {
 public:
  Parameter() = default;  ///< Undefined: a lazy module has not seen its first batch.
  /// Throws DTypeError for a parameter that is to be trained, and is not floating: full({1}, 2) has integers.
  explicit Parameter(const Tensor& value, const ParameterOptions& options = {}) : State(value, options.requires_grad) {}
  LOCKSTEP_COPIED_IF_ASKED(Parameter);
  /// Undefined, and to get these sizes, where -1 stands for any: a state dict with others is refused.
  static Parameter lazy(const Shape& sizes);
  /// What it waits for, if it has no shape yet.
  const std::optional<Shape>& lazy_sizes() const noexcept { return lazy_sizes_; }
  /// As State's; what had no shape yet requires a gradient.
  void reset(const Tensor& value);

 private:
  std::optional<Shape> lazy_sizes_;
};

/// What becomes of a buffer that replicas of a module change in a pass.
enum class BufferSync : std::uint8_t {
  primary,  ///< All get the value of the first process's primary; those of other replicas are lost.
  mean,     ///< All get the mean over the replicas that changed it and had rows. Floating dtypes only.
  equal,    ///< All that changed it have computed the same. Others get it from the first that did.
};

struct BufferOptions {
  BufferSync sync = BufferSync::primary;  ///< What replicas do with it.
  bool persistent = true;  ///< In the state dict. Others are replicated, moved and converted all the same.
};

/// A tensor that belongs to the state of a module but is not trained, such as a running mean.
class LOCKSTEP_API Buffer : public State {
 public:
  Buffer() = default;
  explicit Buffer(const Tensor& value, BufferSync sync = BufferSync::primary) : State(value, false), sync_(sync) {}
  Buffer(const Tensor& value, const BufferOptions& options)
      : State(value, false), sync_(options.sync), persistent_(options.persistent) {}
  LOCKSTEP_COPIED_IF_ASKED(Buffer);
  /// Undefined: a lazy module has not seen its first batch.
  static Buffer lazy(BufferSync sync) {
    Buffer buffer;
    buffer.sync_ = sync;
    return buffer;
  }
  BufferSync sync() const noexcept { return sync_; }           ///< What replicas do with it.
  bool is_persistent() const noexcept { return persistent_; }  ///< Whether it is in the state dict.
  /// Copies the elements, as assigning another buffer does. Throws AutogradError for a tensor that requires a gradient:
  /// assign its detach().
  template <std::derived_from<Tensor> T>
  requires(!std::same_as<T, Buffer>) Buffer& operator=(const T& value) & {
    assign(value);
    return *this;
  }

 private:
  void assign(const Tensor& value);

  BufferSync sync_ = BufferSync::primary;
  bool persistent_ = true;
};

/// What a copy of a parameter or buffer has to do with the original.
enum class CopyAs : std::uint8_t {
  own,      ///< Nothing: a leaf of its own.
  replica,  ///< It is the original on another device: gradients that reach it go on there. Where the original is on
            ///< that device already, the copy is the same tensor.
};

/// Where a CopyTo makes copies, and what of.
struct CopyTarget {
  Device device;
  CopyAs as = CopyAs::own;  ///< What a copy is.
};

/// While it lives, copies of parameters and buffers that this thread makes land on `device`.
class LOCKSTEP_API CopyTo {
 public:
  explicit CopyTo(Device device, CopyAs as = CopyAs::own);
  ~CopyTo();
  CopyTo(const CopyTo&) = delete;
  CopyTo& operator=(const CopyTo&) = delete;

 private:
  const CopyTarget target_;
  const CopyTarget* const outer_;
};

}  // namespace lockstep::nn
