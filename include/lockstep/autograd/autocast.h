// Mixed precision: within a region, products are computed in a 16-bit type, and operations that need range or accuracy
// are computed in float32. A region belongs to its thread; the replicas of a pass inherit it. Backward runs without
// autocast: the gradient of an operation has the operation's dtype.
#pragma once

#include <memory>
#include <optional>

#include <lockstep/core/dtype.h>
#include <lockstep/core/export.h>

namespace lockstep {

namespace autograd {
class AutocastRegion;
}

/// The dtype of products on this thread; nullopt outside of autocast regions.
LOCKSTEP_API std::optional<DType> autocast_dtype() noexcept;

/// While it lives, on this thread:
/// 1. Products (mm, bmm, matmul, linear, addmm, dot, convolutions, attention, recurrent layers) take their floating
///    inputs in `dtype`. float64 inputs are not cast.
/// 2. Norms compute in float32. layer_norm and rms_norm return `dtype`, which is what the products behind them take;
///    batch_norm, instance_norm and group_norm return the dtype of x. float64 stays float64. (In PyTorch layer_norm,
///    rms_norm and group_norm return float32.)
/// 3. Sums, softmax, losses, powers, exponentials and logarithms take 16-bit inputs in float32.
/// 4. All other operations work in the widest dtype of their inputs. So a residual stream that begins with a float32
///    embedding stays float32, as in PyTorch.
///
/// The cast of a parameter is made when an operation first uses it, and kept until the region ends, or until the
/// parameter changes. A region inside a region of the same dtype shares the outer region's casts. With
/// Shard::parameters the 16-bit values come and go instead, as the parameters do. Call backward() and step() outside of
/// regions: the forward pass determines their dtypes.
class LOCKSTEP_API Autocast {
 public:
  /// Throws DTypeError unless `dtype` is kBFloat16 or kFloat16.
  explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  autograd::AutocastRegion* const outer_;
  const std::unique_ptr<autograd::AutocastRegion> own_;  // null if the outer region's casts are used
};

/// While it lives, operations on this thread work in the dtypes of their inputs.
class LOCKSTEP_API NoAutocast {
 public:
  NoAutocast() noexcept;
  ~NoAutocast();
  NoAutocast(const NoAutocast&) = delete;
  NoAutocast& operator=(const NoAutocast&) = delete;

 private:
  autograd::AutocastRegion* const outer_;
};

}  // namespace lockstep
