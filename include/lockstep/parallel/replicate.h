// Replicas of a module, and keeping them equal to it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/parallel/replica_group.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

/// A copy of `module` whose parameters and buffers are on `device`.
template <class M>
M replicate(const M& module, Device device) {
  const nn::CopyTo target(device);
  return M(module);
}

/// Copies what has changed from a module to its replicas: parameters and buffers that are not in lockstep any more,
/// settings listed in members(), and training mode. A parameter is in lockstep as long as it changes on all devices
/// together, as optimizers change it.
class LOCKSTEP_API ReplicaSync {
 public:
  ReplicaSync();
  ~ReplicaSync();
  ReplicaSync(ReplicaSync&&) noexcept;
  ReplicaSync& operator=(ReplicaSync&&) noexcept;

  /// Throws DeviceMismatch naming a parameter that is not on `device`, InvalidArgument naming a lazy one, DTypeError
  /// naming a buffer that cannot become a mean.
  static void check_placement(nn::ModuleBase& module, Device device);
  /// Takes `replicas` as fresh copies of `primary`.
  void reset(nn::ModuleBase& primary, std::span<nn::ModuleBase* const> replicas);
  /// False if the structure is not that of the replicas any more: then they have to be made anew.
  bool update(nn::ModuleBase& primary);
  /// After a pass of `ran` replicas, the primary among them: buffers that become means do (nn::BufferSync).
  void end_pass(nn::ModuleBase& primary, std::size_t ran, ReplicaGroup& group);
  /// After one that failed: some may have changed buffers that others have not. The primary's go to all.
  void fail_pass() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
