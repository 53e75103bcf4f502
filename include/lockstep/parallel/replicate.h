// Replicas of a module, and keeping them equal to it.
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

/// Throws InvalidArgument for no device, one that is not there, and a lazy parameter by name.
LOCKSTEP_API void check_replicable(nn::ModuleBase& module, std::span<const Device> devices);

/// A copy of `module` whose parameters and buffers are on `device`, and that has nothing to do with it otherwise.
template <class M>
M copy_on(const M& module, Device device) {
  const nn::CopyTo target(device);
  return M(module);
}

}  // namespace detail

/// A replica of `module` for each of `devices`, for one pass: gradients that reach the replicas' parameters and buffers
/// go on to the module's, which get their sum. On the device where it is already, a parameter or buffer of a replica is
/// the module's own, and what the replica does to it counts. On other devices it is the result of a copy (none is
/// recorded under NoGrad): no leaf, and what the replica does to it is lost. Throws InvalidArgument for no device, one
/// that is not there, and a lazy parameter.
template <class M>
std::vector<M> replicate(const M& module, std::span<const Device> devices) {
  detail::check_replicable(const_cast<M&>(module), devices);  // walking does not change the module
  std::vector<M> replicas;
  replicas.reserve(devices.size());
  for (const Device& device : devices) {
    const nn::CopyTo target(device, nn::CopyAs::replica);
    replicas.push_back(M(module));
  }
  return replicas;
}

/// What of a module its replicas still stand for.
enum class ReplicaFit : std::uint8_t {
  none,               ///< Its structure is another one now: replicas have to be made anew.
  all_but_gradients,  ///< Some parameter or buffer requires a gradient, and nothing sums that yet.
  all,
};

/// Copies what has changed from a module to its replicas: parameters and buffers that are not in lockstep any more,
/// which of them require a gradient, settings listed in members(), and training mode. A parameter is in lockstep as
/// long as it changes on all devices together, as optimizers change it.
class LOCKSTEP_API ReplicaSync {
 public:
  ReplicaSync();
  ~ReplicaSync();
  ReplicaSync(ReplicaSync&&) noexcept;
  ReplicaSync& operator=(ReplicaSync&&) noexcept;  ///< What this held is released.

  /// Throws DeviceMismatch naming a parameter that is not on `device`, InvalidArgument naming a lazy one, DTypeError
  /// naming a buffer that cannot become a mean.
  static void check_placement(nn::ModuleBase& module, Device device);
  /// Takes `replicas` as fresh copies of `primary`.
  void reset(nn::ModuleBase& primary, std::span<nn::ModuleBase* const> replicas);
  /// Copies nothing where the answer is `none`.
  ReplicaFit update(nn::ModuleBase& primary);
  /// After a pass of as many replicas as there are `rows`, the primary among them, which had so many rows each, of
  /// `all_rows` in all processes: brings buffers, and parameters that require no gradient, to what nn::BufferSync says.
  /// All processes call it. Throws InvalidArgument naming a parameter that requires a gradient and that forward has
  /// changed, and what differs between processes.
  void end_pass(nn::ModuleBase& primary, std::span<const std::int64_t> rows, std::int64_t all_rows,
                ReplicaGroup& group);
  /// After one that failed: some may have changed what others have not. The primary's goes to all.
  void fail_pass() noexcept;

  struct Impl;  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
