// Tensors that the graph keeps for backward.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <lockstep/tensor/tensor.h>

#include "tensor/tensor_impl.h"

namespace lockstep::autograd {

enum class SavedAs : std::uint8_t { input, output };
inline constexpr SavedAs kOutput = SavedAs::output;

/// Stands for a saved tensor that is not kept.
class Dropped {
 public:
  virtual ~Dropped() = default;
  virtual Tensor get() = 0;  ///< Connected to a graph while gradients are recorded.
};

/// Context::save_listener: hears of each tensor that this thread saves, in order, but for leaves that require a
/// gradient.
class SaveListener {
 public:
  /// What is to be kept in the tensor's place; null for the tensor itself.
  virtual std::shared_ptr<Dropped> saves(const Tensor& tensor) = 0;

 protected:
  ~SaveListener() = default;
};

/// A tensor that backward will need. While it is kept, a change in place of the tensor that would be recorded is
/// refused.
class Saved {
 public:
  Saved() = default;
  /// An output is kept without its node, which will hold it: that would be a circle.
  explicit Saved(const Tensor& tensor, SavedAs as = SavedAs::input);
  Saved(const Saved& other) noexcept
      : tensor_(other.tensor_), dropped_(other.dropped_), version_(other.version_), as_(other.as_) {
    count();
  }
  Saved(Saved&&) noexcept = default;
  Saved& operator=(Saved other) noexcept {
    std::swap(tensor_, other.tensor_);
    std::swap(dropped_, other.dropped_);
    std::swap(version_, other.version_);
    std::swap(as_, other.as_);
    return *this;
  }
  ~Saved() {
    if (tensor_.defined()) tensor_.impl()->saves.fetch_sub(1, std::memory_order_relaxed);
  }

  /// The tensor, connected to the graph again: to be called from backward. Throws AutogradError when the tensor was
  /// changed in place since.
  Tensor get() const;

 private:
  void count() const noexcept {
    if (tensor_.defined()) tensor_.impl()->saves.fetch_add(1, std::memory_order_relaxed);
  }

  Tensor tensor_;
  std::shared_ptr<Dropped> dropped_;  // if a tensor was saved and is not kept
  std::uint64_t version_ = 0;
  SavedAs as_ = SavedAs::input;
};

}  // namespace lockstep::autograd
