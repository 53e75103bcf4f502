// Tensors that the graph keeps for backward: what the function object of a custom_gradient() holds.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <lockstep/tensor/tensor.h>

namespace lockstep::autograd {

/// What a saved tensor is to the operation.
enum class SavedAs : std::uint8_t { input, output };
/// How an operation keeps its own result: Saved(result, kOutput).
inline constexpr SavedAs kOutput = SavedAs::output;

class Dropped;

/// A tensor that backward will need. While it is kept, a change in place of the tensor that would be recorded is
/// refused.
class LOCKSTEP_API Saved {
 public:
  Saved() = default;
  /// An output is kept without its node, which will hold it: that would be a circle.
  explicit Saved(const Tensor& tensor, SavedAs as = SavedAs::input);
  Saved(const Saved& other) noexcept
      : tensor_(other.tensor_), dropped_(other.dropped_), version_(other.version_), as_(other.as_) {
    if (tensor_.defined()) count(1);
  }
  Saved(Saved&&) noexcept = default;
  /// Takes over the other's tensor.
  Saved& operator=(Saved other) noexcept {
    std::swap(tensor_, other.tensor_);
    std::swap(dropped_, other.dropped_);
    std::swap(version_, other.version_);
    std::swap(as_, other.as_);
    return *this;
  }
  ~Saved() {
    if (tensor_.defined()) count(-1);
  }

  /// The tensor, connected to the graph again: to be called from backward. Throws AutogradError when the tensor was
  /// changed in place since.
  Tensor get() const;

 private:
  void count(int change) const noexcept;

  Tensor tensor_;
  std::shared_ptr<Dropped> dropped_;  // if a tensor was saved and is not kept
  std::uint64_t version_ = 0;
  SavedAs as_ = SavedAs::input;
};

}  // namespace lockstep::autograd
