// Tensor: one small handle to an n-dimensional array on one device.
// Copies of a handle share the array. Const functions may run on several threads at once.
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

/// Where and of what a new tensor is made. What is left out is the CPU and float32, or for the _like functions
/// what the given tensor has.
struct TensorOptions {
  std::optional<DType> dtype = {};  ///< As said above, where left out.
  std::optional<Device> device = {};
  bool requires_grad = false;  ///< Whether backward() brings the new tensor a gradient.
  bool pinned_memory = false;  ///< In page-locked memory, on the CPU: as Tensor::pin_memory() says.
};

/// Elements by position: see Tensor::accessor().
template <class T, int kRank>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const std::int64_t* sizes, const std::int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  std::int64_t size(int dim) const { return sizes_[dim]; }
  /// Unchecked: an element, or what is at that index of the first dimension.
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

/// All work is enqueued on the current stream of the tensor's device and not waited for, except where a function
/// hands values to the host. Operands on different devices throw DeviceMismatch. Functions whose name ends in an
/// underscore change the tensor in place and return it.
class LOCKSTEP_API Tensor : public TensorMethods {
 public:
  Tensor() noexcept {}  ///< Undefined: holds nothing.
  Tensor(const Tensor& other) noexcept : TensorMethods(), impl_(other.impl_) { acquire(); }
  Tensor(Tensor&& other) noexcept : TensorMethods(), impl_(std::exchange(other.impl_, nullptr)) {}
  // A named tensor takes the handle; what it held is released at once.
  /// The name becomes another handle; what it held is released.
  Tensor& operator=(const Tensor& other) & noexcept { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor taken(std::move(other));
    std::swap(impl_, taken.impl_);
    return *this;
  }
  /// A temporary, such as x[i] or x.index({0, Slice()}), is written through: as copy_ and fill_.
  Tensor& operator=(const Tensor& values) && { return copy_(values); }
  Tensor& operator=(Tensor&& values) && { return copy_(values); }
  template <class Number>
  requires std::is_arithmetic_v<Number> Tensor& operator=(Number value) && { return fill_(double(value)); }
  ~Tensor() {
    if (impl_) release();
  }

  bool defined() const noexcept { return impl_ != nullptr; }  ///< Whether it is a handle to anything.
  /// The same array under the same handle state: no copy lies between them.
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }

  // Geometry. All throw InvalidArgument for an undefined tensor.
  /// All sizes.
  const Shape& sizes() const;
  const Shape& strides() const;               ///< In elements.
  std::int64_t size(std::int64_t dim) const;  ///< Of a dimension; negative ones count from the end.
  int dim() const { return sizes().rank(); }  ///< The number of dimensions.
  std::int64_t numel() const;                 ///< The number of elements.
  std::int64_t stride(std::int64_t dim) const { return strides()[checked_dim("stride", dim)]; }  ///< Of one dimension.
  DType dtype() const;                                                                           ///< Of the elements.
  DType scalar_type() const { return dtype(); }                                                  ///< libtorch's name.
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }  ///< For another one like this.
  Device device() const;                                                            ///< Where the elements are.
  bool is_cuda() const { return device().is_cuda(); }              ///< Whether the elements are on a GPU.
  bool is_floating_point() const { return is_floating(dtype()); }  ///< Whether the dtype is floating.
  bool is_contiguous() const;  ///< Whether the elements lie in row-major order without holes.

  // Values on the host: wait for the device, and throw the errors of its work.
  /// The only element. Throws ShapeError for more or less than one. T: any arithmetic type; converts.
  template <class T>
  T item() const {
    return static_cast<T>(item_number());
  }
  /// All elements in row-major order. Throws DTypeError unless T is the dtype's type.
  template <class T>
  std::vector<T> to_vector() const;
  /// The first element. Throws DTypeError unless T is the dtype's type. Only the CPU's memory may be read by the host:
  /// of a GPU's the pointer is a name for collectives. (The simulation cannot catch it: docs/simulation.md.)
  template <class T>
  T* data() const {
    return static_cast<T*>(raw_data(kDTypeOf<T>));
  }
  template <class T>
  T* data_ptr() const {
    return data<T>();
  }
  /// accessor<float, 2>()[i][j]: the elements in place, whatever the strides, unchecked; a value that must not outlive
  /// the tensor. Throws InvalidArgument unless the tensor is on the CPU, DTypeError, and ShapeError for another rank.
  template <class T, int kRank>
  TensorAccessor<T, kRank> accessor() const {
    check_accessor(kRank);
    return {data<T>(), sizes().begin(), strides().begin()};
  }

  // Movement: differentiable. A tensor that already is as asked is returned itself, without a copy.
  Tensor to(Device device) const;               ///< On that device.
  Tensor to(DType dtype) const;                 ///< Of that dtype.
  Tensor to(Device device, DType dtype) const;  ///< Both.
  /// On the other's device, of its dtype.
  Tensor to(const Tensor& other) const { return to(other.device(), other.dtype()); }
  Tensor cuda(int index = 0) const { return to(Device::cuda(index)); }  ///< On that GPU.
  Tensor cpu() const { return to(Device()); }                           ///< On the CPU.
  Tensor contiguous() const;                                            ///< In row-major order without holes.
  Tensor clone() const;                                                 ///< A copy, always.
  /// A copy on the CPU in page-locked memory, from which GPUs copy by themselves: to(gpu) is enqueued on the GPU's
  /// current stream, and the host does not wait or copy the bytes. The tensor may go right away: its memory is not used
  /// again before the copies that read it have ended. What changes it in place waits for these copies, and so does
  /// data(); what is written through a pointer that was taken before a copy does not. Only values that lie in rows are
  /// copied like this, to the same dtype; others are laid out anew first. A copy from a GPU to the CPU makes the host
  /// wait. A pinned tensor is returned itself. Differentiable. Throws InvalidArgument for a tensor that is not on the
  /// CPU, and where there is no GPU; OutOfMemory.
  Tensor pin_memory() const;
  bool is_pinned() const;  ///< Whether it lies in page-locked memory.
  /// The memory is used on `stream` too: it is not reused before the work enqueued there has ended.
  void record_stream(const Stream& stream) const;

  // Views: share the array. Throw ShapeError for what does not fit.
  Tensor view(const Shape& sizes) const;     ///< One size may be -1. Throws where only a copy could have that shape.
  Tensor reshape(const Shape& sizes) const;  ///< A view where possible, else a copy.
  Tensor flatten(std::int64_t start_dim = 0, std::int64_t end_dim = -1) const;  ///< These dimensions as one.
  Tensor select(std::int64_t dim, std::int64_t index) const;                    ///< Without that dimension.
  /// Elements start, start + step, ... before stop; negative positions count from the end; both are clamped. Without a
  /// start from the first one on, without a stop up to the last one.
  Tensor slice(std::int64_t dim, std::optional<std::int64_t> start = {}, std::optional<std::int64_t> stop = {},
               std::int64_t step = 1) const;
  /// Elements start ... start + length - 1.
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  Tensor transpose(std::int64_t dim0, std::int64_t dim1) const;  ///< With two dimensions exchanged.
  Tensor t() const;                                              ///< Of a matrix: its transpose.
  Tensor permute(const Shape& dims) const;                       ///< Dimension i is dimension dims[i] of this.
  using TensorMethods::squeeze;
  Tensor squeeze(std::int64_t dim) const;    ///< Without that dimension, if its size is 1.
  Tensor unsqueeze(std::int64_t dim) const;  ///< With a new dimension of size 1 there.
  Tensor expand(const Shape& sizes) const;   ///< -1 keeps a size.
  /// Windows of `size` elements along `dim`, one every `step`: dim counts the windows, and a new last dimension holds
  /// their elements. (lockstep::unfold does this to images.)
  Tensor unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }  ///< One row, and so on.
  /// x.index({0, Slice(1, 3), Ellipsis, None}).
  Tensor index(std::initializer_list<Index> indices) const;

  // Picked by tensors: a bool mask, which has the sizes of the dimensions that it stands for, or int32 or int64
  // indices, negative ones from the end, which broadcast. As in PyTorch and NumPy: the shape of the indices comes where
  // the first of them stands, or at the front if a slice stands between two. What comes back is a copy, and const: to
  // write, use index_put_. A mask makes the host wait for the device. Differentiable.
  /// x[mask]; x[indices].
  const Tensor operator[](const Tensor& index) const;
  /// x.index({mask}); x.index({rows, Slice(), columns}).
  template <class I = ElementIndex>
  const Tensor index(std::initializer_list<std::type_identity_t<I>> indices) const {
    return picked({indices.begin(), indices.size()});
  }
  /// Writes `values`, which broadcast, where index(indices) reads. Of equal places the last one counts, or all add up
  /// if `accumulate`. Costs a pass over the whole tensor.
  Tensor& index_put_(std::initializer_list<ElementIndex> indices, const Tensor& values, bool accumulate = false);
  Tensor& index_put_(std::initializer_list<ElementIndex> indices, double value);

  // In place.
  Tensor& copy_(const Tensor& source);                  ///< Broadcasts, converts, and crosses devices.
  Tensor& fill_(double value);                          ///< Writes the value everywhere.
  Tensor& zero_() { return fill_(0); }                  ///< Writes zeros.
  Tensor& add_(const Tensor& other, double alpha = 1);  ///< this + alpha * other; broadcasts.
  /// this - alpha * other; broadcasts.
  Tensor& sub_(const Tensor& other, double alpha = 1) { return add_(other, -alpha); }
  Tensor& mul_(const Tensor& other);                     ///< Broadcasts.
  Tensor& div_(const Tensor& other);                     ///< Of a floating dtype.
  Tensor& add_(double number);                           ///< Adds a number.
  Tensor& sub_(double number) { return add_(-number); }  ///< Subtracts a number.
  Tensor& mul_(double factor);                           ///< Multiplies by a number.
  Tensor& div_(double number);                           ///< Of a floating dtype.
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
  bool requires_grad() const;  ///< Whether a gradient is recorded for it.
  /// Throws AutogradError for a dtype that is not floating, or for a tensor that an op computed.
  Tensor& requires_grad_(bool requires_grad = true);
  bool is_leaf() const;  ///< Whether no operation computed it: its gradient is kept in grad().
  /// The gradient that backward() accumulated, undefined if there is none. Of a parameter of a DataParallel it is that
  /// of the whole batch, and what is done to it in place counts for every replica; ask again after the next backward,
  /// step or clipping, which may keep it elsewhere.
  Tensor grad() const;
  /// Of a parameter of a DataParallel the gradient is copied, and every replica gets it.
  void set_grad(const Tensor& grad);
  /// Accumulates the gradients of this tensor into the leaves it was computed from. `gradient` has its shape
  /// and may be left out for a tensor of one element.
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;
  /// backward({.retain_graph = true}); needs lockstep/autograd/autograd.h.
  void backward(const BackwardOptions& options) const;
  void backward(const Tensor& gradient, const BackwardOptions& options) const;
  /// As the functions of lockstep/autograd/autograd.h, which it needs: calls `hook` with this tensor's gradient when
  /// backward has it; what a hook returns replaces the gradient, if it is defined.
  HookHandle register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// The same for a hook that returns nothing.
  template <std::invocable<const Tensor&> Hook>
  requires std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>> HookHandle register_hook(Hook hook)
  const;
  /// The same array, cut off from the graph.
  Tensor detach() const;
  /// Cuts this tensor off from the graph: it is a leaf without a gradient from now on.
  Tensor& detach_();
  /// What an operation computed keeps its gradient in grad() too, as leaves do. Throws AutogradError where no gradient
  /// is recorded.
  void retain_grad();
  /// Such as "AddmmBackward"; empty for a leaf.
  std::string_view grad_fn() const;
  /// How often the array was changed in place, through any view.
  std::uint64_t version() const;

  /// For the library: the object behind the handle.
  TensorImpl* impl() const noexcept { return impl_; }
  /// For the library: takes over one reference.
  explicit Tensor(TensorImpl* adopted) noexcept : impl_(adopted) {}

 private:
  struct Number {  // an element on its way to any arithmetic type, without loss
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
