// Tensor: a small handle to an n-dimensional array on one device. Copies of a handle share the array.
// Several threads may call const functions at once.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/core/error.h>
#include <lockstep/core/export.h>
#include <lockstep/core/shape.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/methods.h>

namespace lockstep {

struct TensorImpl;
class ElementIndex;
class HookHandle;
struct BackwardOptions;

/// The dtype, device and memory of a new tensor. The defaults are float32 and the CPU, or, in the _like functions, the
/// given tensor's dtype and device.
struct TensorOptions {
  std::optional<DType> dtype = {};  ///< nullopt: the default above.
  std::optional<Device> device = {};
  bool requires_grad = false;  ///< True: backward() computes a gradient for the new tensor.
  bool pinned_memory = false;  ///< True: page-locked memory on the CPU (Tensor::pin_memory()).
};

/// Access to elements by index: see Tensor::accessor().
template <class T, int kRank>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const std::int64_t* sizes, const std::int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  std::int64_t size(int dim) const { return sizes_[dim]; }
  /// Unchecked: the element, or an accessor to the subarray, at that index of the first dimension.
  decltype(auto) operator[](std::int64_t index) const {
    if constexpr (kRank == 1)
      return (data_[index * strides_[0]]);
    else
      return TensorAccessor<T, kRank - 1>(data_ + index * strides_[0], sizes_ + 1, strides_ + 1);
  }

 private:
  T* data_;
  const std::int64_t* sizes_;
  const std::int64_t* strides_;
};

/// All work is enqueued on the current stream of the tensor's device. The host waits for it only in functions that
/// return values to the host. Operands on different devices throw DeviceMismatch. Functions whose name ends in an
/// underscore change the tensor in place and return it.
class LOCKSTEP_API Tensor : public TensorMethods {
 public:
  Tensor() noexcept {}  ///< An undefined tensor: a null handle.
  Tensor(const Tensor& other) noexcept : TensorMethods(), impl_(other.impl_) { acquire(); }
  Tensor(Tensor&& other) noexcept : TensorMethods(), impl_(std::exchange(other.impl_, nullptr)) {}
  /// Rebinds the handle; the array that it held is released.
  Tensor& operator=(const Tensor& other) & noexcept { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor taken(std::move(other));
    std::swap(impl_, taken.impl_);
    return *this;
  }
  /// Assignment to a temporary, such as x[i] or x.index({0, Slice()}), writes the elements, as copy_ and fill_ do.
  Tensor& operator=(const Tensor& values) && { return copy_(values); }
  Tensor& operator=(Tensor&& values) && { return copy_(values); }
  template <class Number>
  requires std::is_arithmetic_v<Number> Tensor& operator=(Number value) && { return fill_(double(value)); }
  ~Tensor() {
    if (impl_) release();
  }

  bool defined() const noexcept { return impl_ != nullptr; }  ///< False for a null handle.
  /// True if both are handles to one tensor object; a view or a copy is another object.
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }

  // Geometry. All throw InvalidArgument for an undefined tensor.
  /// The sizes of all dimensions.
  const Shape& sizes() const;
  const Shape& strides() const;               ///< In elements.
  std::int64_t size(std::int64_t dim) const;  ///< Size of a dimension; negative `dim` counts from the end.
  int dim() const { return sizes().rank(); }  ///< The number of dimensions.
  std::int64_t numel() const;                 ///< The number of elements.
  std::int64_t stride(std::int64_t dim) const { return strides()[checked_dim("stride", dim)]; }  ///< In elements.
  DType dtype() const;                                                                           ///< The element type.
  DType scalar_type() const { return dtype(); }                                                  ///< libtorch's name.
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }  ///< For a similar tensor.
  Device device() const;                                                            ///< The elements' device.
  bool is_cuda() const { return device().is_cuda(); }                               ///< True on a GPU.
  bool is_floating_point() const { return is_floating(dtype()); }                   ///< True for a floating dtype.
  bool is_contiguous() const;  ///< True if the elements are dense, in row-major order.

  // Values on the host: these wait for the device, and throw the errors of its work.
  /// The only element, converted to T, any arithmetic type. Throws ShapeError unless there is exactly one. item()
  /// without a T returns a double, to which integers beyond 2^53 are rounded.
  template <class T = double>
  T item() const {
    return static_cast<T>(item_number());
  }
  /// All elements in row-major order. Throws DTypeError unless T is the dtype's type.
  template <class T>
  std::vector<T> to_vector() const;
  /// A pointer to the first element. Throws DTypeError unless T is the dtype's type. The host may access it only if the
  /// tensor is on the CPU: a GPU's pointer may only be passed on, as to collectives. (The simulation cannot detect a
  /// violation: docs/simulation.md.)
  template <class T>
  T* data() const {
    return static_cast<T*>(raw_data(kDTypeOf<T>));
  }
  template <class T>
  T* data_ptr() const {
    return data<T>();
  }
  /// accessor<float, 2>()[i][j] refers to an element, unchecked, for any strides. The accessor must not outlive the
  /// tensor. Throws InvalidArgument unless the tensor is on the CPU, DTypeError unless T is the dtype's type, and
  /// ShapeError unless kRank is the number of dimensions.
  template <class T, int kRank>
  TensorAccessor<T, kRank> accessor() const {
    check_accessor(kRank);
    return {data<T>(), sizes().begin(), strides().begin()};
  }

  // Movement: differentiable. A tensor that already fits is returned itself, without a copy.
  Tensor to(Device device) const;               ///< On that device.
  Tensor to(DType dtype) const;                 ///< In that dtype.
  Tensor to(Device device, DType dtype) const;  ///< On that device, in that dtype.
  /// On the device of `other`, in its dtype.
  Tensor to(const Tensor& other) const { return to(other.device(), other.dtype()); }
  Tensor cuda(int index = 0) const { return to(Device::cuda(index)); }  ///< On that GPU.
  Tensor cpu() const { return to(Device()); }                           ///< On the CPU.
  Tensor contiguous() const;                                            ///< Dense, in row-major order.
  Tensor clone() const;                                                 ///< Always a copy.
  /// A copy on the CPU in page-locked memory, which GPUs read directly: to(gpu) is enqueued on the GPU's current
  /// stream, and the host does not wait or copy the bytes. The tensor may be destroyed at once: its memory is not
  /// reused before the copies that read it have ended. In-place operations and data() wait for these copies, but a
  /// write through a pointer that was taken before a copy does not. Only rows of dense elements are copied directly,
  /// and only to the same dtype; other layouts are made contiguous first. A copy from a GPU to the CPU makes the host
  /// wait. If the tensor is already pinned, it is returned itself. Differentiable. Throws InvalidArgument if the tensor
  /// is not on the CPU or there is no GPU; OutOfMemory.
  Tensor pin_memory() const;
  bool is_pinned() const;  ///< True if its memory is page-locked.
  /// Tells the allocator that `stream` uses the memory too: it is not reused before work enqueued there has ended.
  void record_stream(const Stream& stream) const;

  // Views share the array. All throw ShapeError for invalid dimensions and sizes.
  Tensor view(const Shape& sizes) const;     ///< One size may be -1. Throws if only a copy could have that shape.
  Tensor reshape(const Shape& sizes) const;  ///< A view where possible, else a copy.
  Tensor flatten(std::int64_t start_dim = 0, std::int64_t end_dim = -1) const;  ///< Merges these dimensions.
  Tensor select(std::int64_t dim, std::int64_t index) const;                    ///< Removes that dimension.
  /// Elements start, start + step, ... before stop. Negative positions count from the end; both bounds are clamped. The
  /// default start is the first element, the default stop the end.
  Tensor slice(std::int64_t dim, std::optional<std::int64_t> start = {}, std::optional<std::int64_t> stop = {},
               std::int64_t step = 1) const;
  /// Elements start ... start + length - 1.
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  Tensor transpose(std::int64_t dim0, std::int64_t dim1) const;  ///< Swaps two dimensions.
  Tensor t() const;                                              ///< The transpose of a matrix.
  Tensor permute(const Shape& dims) const;                       ///< Dimension i of the result is dims[i] of this.
  using TensorMethods::squeeze;
  Tensor squeeze(std::int64_t dim) const;    ///< Removes that dimension if its size is 1.
  Tensor unsqueeze(std::int64_t dim) const;  ///< Inserts a dimension of size 1.
  Tensor expand(const Shape& sizes) const;   ///< -1 keeps a size.
  /// Windows of `size` elements along `dim`, one every `step`: `dim` indexes the windows, and a new last dimension has
  /// their elements. (lockstep::unfold does this for images.)
  Tensor unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }  ///< select(0, index).
  /// x.index({0, Slice(1, 3), Ellipsis, None}).
  Tensor index(std::initializer_list<Index> indices) const;

  // Advanced indexing: a bool mask, which has the sizes of the dimensions that it replaces, or int32 or int64 indices,
  // which broadcast; negative indices count from the end. As in PyTorch and NumPy, the indices' shape replaces the
  // first indexed dimension, or comes first if a slice stands between two indices. The result is a copy, and const: to
  // write, use index_put_. A mask makes the host wait for the device. Differentiable.
  /// x[mask]; x[indices].
  const Tensor operator[](const Tensor& index) const;
  /// x.index({mask}); x.index({rows, Slice(), columns}).
  template <class I = ElementIndex>
  const Tensor index(std::initializer_list<std::type_identity_t<I>> indices) const {
    return picked({indices.begin(), indices.size()});
  }
  /// Writes `values`, which broadcast, to the elements that index(indices) reads. If indices repeat, the last value is
  /// kept, or all are added if `accumulate`. Costs a pass over the whole tensor.
  Tensor& index_put_(std::initializer_list<ElementIndex> indices, const Tensor& values, bool accumulate = false);
  Tensor& index_put_(std::initializer_list<ElementIndex> indices, double value);

  // In place.
  Tensor& copy_(const Tensor& source);                  ///< Broadcasts, converts, and crosses devices.
  Tensor& fill_(double value);                          ///< Sets all elements to `value`.
  Tensor& zero_() { return fill_(0); }                  ///< Sets all elements to 0.
  Tensor& add_(const Tensor& other, double alpha = 1);  ///< this + alpha * other; broadcasts.
  /// this - alpha * other; broadcasts.
  Tensor& sub_(const Tensor& other, double alpha = 1) { return add_(other, -alpha); }
  Tensor& mul_(const Tensor& other);                     ///< Broadcasts.
  Tensor& div_(const Tensor& other);                     ///< Needs a floating dtype.
  Tensor& add_(double number);                           ///< Adds a number.
  Tensor& sub_(double number) { return add_(-number); }  ///< Subtracts a number.
  Tensor& mul_(double factor);                           ///< Multiplies by a number.
  Tensor& div_(double number);                           ///< Needs a floating dtype.
  template <class T>
  Tensor& operator+=(const T& other) {
    return add_(other);
  }
  template <class T>
  Tensor& operator-=(const T& other) {
    return sub_(other);
  }
  template <class T>
  Tensor& operator*=(const T& other) {
    return mul_(other);
  }
  template <class T>
  Tensor& operator/=(const T& other) {
    return div_(other);
  }

  // Gradients.
  bool requires_grad() const;  ///< True if backward computes its gradient.
  /// Throws AutogradError for true if the dtype is not floating, and for false if an operation computed the tensor.
  Tensor& requires_grad_(bool requires_grad = true);
  bool is_leaf() const;  ///< True if no operation computed it: grad() has its gradient.
  /// The gradient that backward() accumulated; an undefined Tensor if there is none. For a parameter of a
  /// DataParallel it is the gradient of the whole batch, and in-place changes of it apply to every replica; call grad()
  /// again after the next backward, step or clipping, which may move the gradient to other memory.
  Tensor grad() const;
  /// Sets the gradient, or drops it if `grad` is an undefined Tensor. For a parameter of a DataParallel, every replica
  /// gets a copy.
  void set_grad(const Tensor& grad);
  /// Accumulates the gradients of this tensor into the leaves it was computed from. `gradient`, the gradient of this
  /// tensor, has its shape; its default is 1 for a tensor of one element.
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;
  /// backward({.retain_graph = true}); needs lockstep/autograd/autograd.h.
  void backward(const BackwardOptions& options) const;
  void backward(const Tensor& gradient, const BackwardOptions& options) const;
  /// As register_hook() of lockstep/autograd/autograd.h, which must be included: calls `hook` with this tensor's
  /// gradient when backward has computed it; a defined result replaces the gradient.
  HookHandle register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// register_hook() for a hook that returns nothing.
  template <std::invocable<const Tensor&> Hook>
  requires std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>> HookHandle register_hook(Hook hook)
  const;
  /// A view of the whole tensor, detached from the autograd graph.
  Tensor detach() const;
  /// Detaches this tensor from the graph: from now on it is a leaf that requires no gradient.
  Tensor& detach_();
  /// Makes backward keep this tensor's gradient in grad() even if it is not a leaf. Throws AutogradError if the tensor
  /// does not require a gradient.
  void retain_grad();
  /// The name of the node that computed this tensor, such as "AddmmBackward"; empty for a leaf.
  std::string_view grad_fn() const;
  /// The number of in-place changes of the array so far, through any view.
  std::uint64_t version() const;

  /// For the library: the object behind the handle.
  TensorImpl* impl() const noexcept { return impl_; }
  /// For the library: makes a handle that takes over one reference to `adopted`.
  explicit Tensor(TensorImpl* adopted) noexcept : impl_(adopted) {}

 private:
  struct Number {  // holds an element of any dtype without loss
    double real;
    std::int64_t integer;
    bool is_integer;
    template <class T>
    explicit operator T() const {
      return is_integer ? static_cast<T>(integer) : static_cast<T>(real);
    }
  };
  Number item_number() const;
  Tensor picked(std::span<const ElementIndex> indices) const;
  void check_accessor(int rank) const;
  int checked_dim(const char* op, std::int64_t dim) const;
  void* raw_data(DType expected) const;
  void acquire() const noexcept;
  void release() noexcept;

  TensorImpl* impl_ = nullptr;
};

/// Prints as PyTorch does: tensor([[1.0000, 2.0000]], device='cuda:1').
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace lockstep
