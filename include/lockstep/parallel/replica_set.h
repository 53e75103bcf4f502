// ReplicaSet: a module and its replicas; the part of DataParallel that does not depend on the module's type.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/core/moved_from.h>
#include <lockstep/data/batch_share.h>
#include <lockstep/nn/module.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/parallel/data_parallel_options.h>
#include <lockstep/parallel/gradient_buckets.h>
#include <lockstep/parallel/parallel_apply.h>
#include <lockstep/parallel/process_pass.h>
#include <lockstep/parallel/replica_group.h>
#include <lockstep/parallel/replicate.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/parallel/unnamed_parameters.h>

namespace lockstep::detail {

struct DataParallelMark {};  // the base class of every DataParallel<M>, to recognize it without knowing M

/// The devices to run on. Throws InvalidArgument for a device that does not exist or is given twice, BackendError for a
/// lost one.
LOCKSTEP_API std::vector<Device> resolve_devices(const std::vector<int>& device_ids);
/// Moves a module that is wholly on the CPU to `device`; if `parameters_stay`, tensors that require a gradient stay on
/// the CPU. Throws if a module is neither wholly on the CPU nor wholly on `device`, and if it has lazy parameters or
/// contains a DataParallel.
LOCKSTEP_API void move_to_device(nn::ModuleBase& module, Device device, bool parameters_stay = false);
/// Throws InvalidArgument for a device that does not exist.
LOCKSTEP_API void check_output_device(Device device);
/// Throws InvalidArgument inside a replica.
LOCKSTEP_API void refuse_nesting();
/// Throws InvalidArgument unless shard is Shard::none: data_parallel() keeps no state that could be sharded.
LOCKSTEP_API void refuse_sharding(Shard shard);

/// The state that a DataParallel keeps between calls: the module on the first device, its replicas on the others, and
/// the objects that keep them equal. For each call of the model, DataParallel calls check_call(), locate_rows() and
/// sync_replicas(), runs the replicas, and then calls end_pass() or, after an error, fail_pass().
class LOCKSTEP_API ReplicaSet {
 public:
  /// Copies a module to a device. The function knows the module's type, which ReplicaSet does not.
  using Copy = std::unique_ptr<nn::ModuleBase> (*)(const nn::ModuleBase& module, Device device, nn::CopyAs as);

  /// Makes a set without a module. Throws as resolve_devices() does.
  explicit ReplicaSet(DataParallelOptions options);
  /// Takes the module and makes its replicas. Throws as DataParallel's constructor does.
  void set_module(std::unique_ptr<nn::ModuleBase> module, Copy copy);

  /// Throws InvalidArgument if this was moved from.
  nn::ModuleBase& module() const { return checked_deref(module_, "DataParallel", "a model"); }
  const DataParallelOptions& options() const noexcept { return options_; }
  const std::vector<Device>& devices() const noexcept { return devices_; }  ///< The devices, in the order of replicas.
  Device output_device() const;
  data::BatchShare share() const;
  std::int64_t batch_rows() const noexcept { return batch_rows_; }  ///< Rows of the last batch, over all processes.
  std::int64_t own_rows() const noexcept { return own_rows_; }      ///< Rows of the last batch, in this process.
  const GradientBuckets::Summing& summing() const noexcept { return summing_; }
  UnnamedParameters& unnamed() noexcept { return unnamed_; }
  /// Does the work of DataParallel::over_processes().
  WeightedMean over_processes(const WeightedMean& mean) const;
  /// True if gradients are weighted by this process's share of the batch.
  bool is_weighted() const noexcept;

  /// Throws, before anything is changed, if a call cannot be made.
  void check_call() const;
  /// Returns the place of these rows among the rows of all processes. Throws CollectiveError.
  ProcessPass locate_rows(const std::vector<std::int64_t>& rows);
  /// Options that divide the batch into the shards that one process with all devices would make; nullopt if the model's
  /// options do this already.
  std::optional<ScatterOptions> scatter_as_one_process(const ProcessPass& place,
                                                       const std::vector<std::int64_t>& rows) const;
  /// Makes the replicas equal to the module. Returns the module and its first replicas, `count` in all.
  std::vector<nn::ModuleBase*> sync_replicas(std::size_t count);
  /// The description of the pass, for run_replicas(). `rows` must outlive it.
  ReplicaPass pass_over(const std::vector<std::int64_t>& rows, const ProcessPass& place) const;
  /// Called when a replica has run, on its thread.
  void has_run(std::size_t replica) noexcept;
  /// Called after a pass in which replica i had rows[i] rows. Throws as ReplicaSync::end_pass() does.
  void end_pass(const std::vector<std::int64_t>& rows, const ProcessPass& place);
  void fail_pass() noexcept;
  void fail_processes() const noexcept;

 private:
  bool is_alone() const noexcept { return devices_.size() == 1 && options_.world.size() == 1; }
  std::vector<nn::ModuleBase*> modules(std::size_t count) const;
  void make_replicas();

  DataParallelOptions options_;
  std::vector<Device> devices_;
  std::unique_ptr<nn::ModuleBase> module_;
  Copy copy_ = nullptr;
  std::vector<std::unique_ptr<nn::ModuleBase>> replicas_;  // on devices_[1], devices_[2], ...
  ReplicaSync sync_;
  GradientBuckets::Summing summing_ = std::make_shared<std::atomic<bool>>(true);
  GradientBuckets buckets_;
  std::shared_ptr<ReplicaGroup> group_;
  std::shared_ptr<CallLog> calls_;  // null for a single process
  std::int64_t batch_rows_ = 0, own_rows_ = 0;
  UnnamedParameters unnamed_;
};

}  // namespace lockstep::detail
