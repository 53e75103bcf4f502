// Replicas of a module, and the synchronization that keeps them equal to it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/parallel/replica_group.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

namespace detail {

/// Throws InvalidArgument for no device, a device that does not exist, and a lazy parameter, naming it.
LOCKSTEP_API void check_replicable(nn::ModuleBase& module, std::span<const Device> devices);

/// An independent copy of `module` whose parameters and buffers are on `device`.
template <class M>
M copy_on(const M& module, Device device, nn::CopyAs as = nn::CopyAs::own) {
  const nn::CopyTo target(device, as);
  return M(module);
}

}  // namespace detail

/// A replica of `module` for each of `devices`, for one pass. The module's parameters and buffers get the sum of the
/// gradients of all replicas. On the module's own device, a replica shares the module's parameters and buffers, so
/// changes to them are kept. On other devices a replica's parameters and buffers are results of a recorded copy (not
/// recorded under NoGrad). They are not leaves, and changes to them are lost. Throws InvalidArgument for no device, a
/// device that does not exist, and a lazy parameter.
template <class M>
std::vector<M> replicate(const M& module, std::span<const Device> devices) {
  detail::check_replicable(const_cast<M&>(module), devices);  // does not change the module
  std::vector<M> replicas;
  replicas.reserve(devices.size());
  for (const Device& device : devices) {
    const nn::CopyTo target(device, nn::CopyAs::replica);
    replicas.push_back(M(module));
  }
  return replicas;
}

/// How far the replicas still match the module.
enum class ReplicaFit : std::uint8_t {
  none,               ///< The module's structure has changed: replicas have to be made again.
  all_but_gradients,  ///< The replicas match, but some parameter requires a gradient that no bucket sums yet.
  all,
};

/// Copies changes of a module to its replicas: parameters and buffers that are not in lockstep any more, their
/// requires_grad, settings listed in members(), and training mode. A parameter is in lockstep as long as it changes on
/// all devices together, as optimizers change it.
class LOCKSTEP_API ReplicaSync {
 public:
  ReplicaSync();
  ~ReplicaSync();
  ReplicaSync(ReplicaSync&&) noexcept;
  ReplicaSync& operator=(ReplicaSync&&) noexcept;  ///< Releases the state that this object held.

  /// Throws DeviceMismatch for a parameter that is not on `device`, InvalidArgument for a lazy parameter, and
  /// DTypeError for a buffer whose dtype has no mean; the errors name it.
  static void check_placement(nn::ModuleBase& module, Device device);
  /// Registers `replicas` as fresh copies of `primary`.
  void reset(nn::ModuleBase& primary, std::span<nn::ModuleBase* const> replicas);
  /// Copies the changes. Copies nothing if it returns `none`.
  ReplicaFit update(nn::ModuleBase& primary);
  /// Called after a pass of rows.size() replicas, the primary first. Replica i had rows[i] of the `all_rows` rows of
  /// all processes. Sets buffers, and parameters that require no gradient, to the values that nn::BufferSync defines.
  /// All processes call it. Throws InvalidArgument naming a parameter that requires a gradient and that forward has
  /// changed, or naming the difference between processes.
  void end_pass(nn::ModuleBase& primary, std::span<const std::int64_t> rows, std::int64_t all_rows,
                ReplicaGroup& group);
  /// Called after a failed pass, in which only some replicas may have changed: the primary's values go to all.
  void fail_pass() noexcept;

  struct Impl;  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
