// Parameters and buffers: tensors that belong to a module. A copy of a parameter has its own elements (copies of a
// Tensor share them), so copying a module copies its state. Copies are explicit: Parameter(other), or copy(other).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include <lockstep/core/copied_if_asked.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::nn {

/// A tensor with value semantics. Copying copies the elements (to another device inside a CopyTo scope). place(), and
/// assignment of the same shape and dtype, keep its identity as a Tensor, so that an optimizer's handles stay valid.
/// Move assignment, and assignment of another shape or dtype, make it another tensor.
class LOCKSTEP_API State : public Tensor {
 public:
  /// Moves the elements to a device in place; a gradient moves along.
  void place(Device device);
  void convert(DType dtype);  ///< Converts it in place. Throws as reset() does.
  /// Takes the storage of `value`, which may have another shape, dtype and device. Drops an accumulated gradient. If
  /// this is undefined, becomes `value` itself. Throws AutogradError for a replica's tensor, which is not a leaf, and
  /// DTypeError for integers if this requires a gradient.
  void reset(const Tensor& value);

 protected:
  State() = default;
  State(const Tensor& value, bool requires_grad);
  State(const State& other);
  State(State&&) noexcept = default;
  /// Copies the elements: into this tensor if it has the other's shape and dtype, else this becomes a new tensor.
  State& operator=(const State& other) &;
  /// Becomes the other's tensor itself, whatever its shape and dtype: no elements are copied.
  State& operator=(State&&) & noexcept = default;
  ~State() = default;
};

struct ParameterOptions {
  bool requires_grad = true;  ///< False for a parameter that is not trained, which may have any dtype.
};

/// A tensor that training changes: requires a gradient by default.
class LOCKSTEP_API Parameter : public State {
 public:
  Parameter() = default;  ///< An undefined parameter, as in a lazy module before its first batch.
  /// Throws DTypeError for a trained parameter that is not floating: full({1}, 2) has integers.
  explicit Parameter(const Tensor& value, const ParameterOptions& options = {}) : State(value, options.requires_grad) {}
  LOCKSTEP_COPIED_IF_ASKED(Parameter);
  /// An undefined parameter that will get these sizes; -1 stands for any size. Loading a state dict checks the sizes.
  static Parameter lazy(const Shape& sizes);
  /// The sizes that it will get, if it has no shape yet.
  const std::optional<Shape>& lazy_sizes() const noexcept { return lazy_sizes_; }
  /// Does what State::reset() does. A parameter that had no shape yet requires a gradient afterwards.
  void reset(const Tensor& value);

 private:
  std::optional<Shape> lazy_sizes_;
};

/// How replicas reconcile a buffer that they change in a pass.
enum class BufferSync : std::uint8_t {
  primary,  ///< All replicas get the value of the first replica of the first process; other changes are lost.
  mean,     ///< All get the mean over the replicas that changed it and had rows. Floating dtypes only.
  equal,    ///< All replicas that changed it have equal values, which the other replicas copy.
};

struct BufferOptions {
  BufferSync sync = BufferSync::primary;  ///< How replicas reconcile it.
  bool persistent = true;                 ///< False: not in the state dict, but replicated, moved and converted.
};

/// A tensor that belongs to the state of a module but is not trained, such as a running mean.
class LOCKSTEP_API Buffer : public State {
 public:
  Buffer() = default;
  explicit Buffer(const Tensor& value, BufferSync sync = BufferSync::primary) : State(value, false), sync_(sync) {}
  Buffer(const Tensor& value, const BufferOptions& options)
      : State(value, false), sync_(options.sync), persistent_(options.persistent) {}
  LOCKSTEP_COPIED_IF_ASKED(Buffer);
  /// Returns an undefined buffer, as in a lazy module before its first batch.
  static Buffer lazy(BufferSync sync) {
    Buffer buffer;
    buffer.sync_ = sync;
    return buffer;
  }
  BufferSync sync() const noexcept { return sync_; }           ///< How replicas reconcile it.
  bool is_persistent() const noexcept { return persistent_; }  ///< True if it is in the state dict.
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

/// How a copy of a parameter or buffer relates to the original.
enum class CopyAs : std::uint8_t {
  own,      ///< An independent leaf.
  replica,  ///< The original on another device: its gradients flow to the original. On the original's own device, the
            ///< copy is the same tensor.
  without_memory,  ///< As `own`, but tensors that require a gradient get no memory: the library allocates it later.
};

/// The device and kind of the copies in a CopyTo scope.
struct CopyTarget {
  Device device;
  CopyAs as = CopyAs::own;  ///< The kind of copy.
};

/// While it lives, this thread's copies of parameters and buffers are made on `device`.
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
