// Saved tensors, which the graph keeps for backward: for the function objects of nodes and of custom_gradient().
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <lockstep/tensor/tensor.h>

namespace lockstep::autograd {

/// The role of a saved tensor in the operation.
enum class SavedAs : std::uint8_t { input, output };
/// For an operation that saves its own result: Saved(result, kOutput).
inline constexpr SavedAs kOutput = SavedAs::output;

class SavedPlaceholder;

/// A tensor that is kept for backward. While it is kept, recorded in-place changes of it throw AutogradError.
class LOCKSTEP_API Saved {
 public:
  Saved() = default;
  /// Keeps nothing if the tensor is undefined. An output is kept without its grad_fn: that is the node that keeps the
  /// output, so the two would form a reference cycle.
  explicit Saved(const Tensor& tensor, SavedAs as = SavedAs::input);
  Saved(const Saved& other) noexcept
      : tensor_(other.tensor_), placeholder_(other.placeholder_), version_(other.version_), as_(other.as_) {
    if (tensor_.defined()) count(1);
  }
  Saved(Saved&&) noexcept = default;
  /// Drops this tensor, and takes over the one that `other` keeps.
  Saved& operator=(Saved other) noexcept {
    std::swap(tensor_, other.tensor_);
    std::swap(placeholder_, other.placeholder_);
    std::swap(version_, other.version_);
    std::swap(as_, other.as_);
    return *this;
  }
  ~Saved() {
    if (tensor_.defined()) count(-1);
  }

  /// The tensor, connected to the graph again; to be called from backward. Throws AutogradError if the tensor was
  /// changed in place after it was saved.
  Tensor get() const;

  /// To be called from backward, before get(). Returns the tensor's memory if nobody will read it after the node that
  /// runs, which may then write its gradient there: backward frees the graph, the tensor is contiguous and all of its
  /// memory, and no other tensor, stream or captured step uses that. Otherwise returns an undefined tensor.
  Tensor overwritable() const;

 private:
  void count(int change) const noexcept;

  Tensor tensor_;
  std::shared_ptr<SavedPlaceholder> placeholder_;  // set if the tensor was dropped (checkpoint())
  std::uint64_t version_ = 0;
  SavedAs as_ = SavedAs::input;
};

}  // namespace lockstep::autograd
