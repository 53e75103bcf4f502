// The state of GradientBuckets. gradient_sums.cpp sums gradients while a backward runs and, if a backward did not sum,
// when a gradient is used; gradient_buckets.cpp lays out buckets, and makes changes between backwards on all replicas.
//
// Invariants:
// 1. Buckets are reduced in the order of `buckets`: a bucket is launched after all buckets before it. (Processes that
//    share the sums share that order.)
// 2. `launcher` alone enqueues the collectives of a backward, one bucket after the other, so that no device thread
//    blocks while NCCL enqueues one. The end of the backward throws the launcher's errors. The launcher gets buckets
//    only from start_reductions() to finish_reductions(), and has finished with them when either throws.
// 3. In a backward that sums, all processes reduce the same buckets, so that no process waits for one that has nothing
//    to contribute. These are all buckets except those that have neither a trained parameter nor a gradient left to
//    sum. The order of buckets is process 0's.
// 4. While `is_running`, only autograd's calls change gradients and buckets.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/parallel/gradient_buckets.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/stream.h>

#include "core/ranked_mutex.h"
#include "parallel/bucket_layout.h"
#include "parallel/bucketed_parameter.h"
#include "parallel/gradient_memory.h"
#include "parallel/parameter_units.h"
#include "parallel/used_parameter_map.h"
#include "runtime/device_thread.h"

namespace lockstep {

struct GradientBucket : BucketMemory {
  /// The progress of the present backward on one device. Used only by the thread that runs backward there.
  struct Arrivals {
    std::size_t expected = 0;             // leaves that backward has not finished
    std::optional<Stream> last_on;        // the stream of the latest gradient
    std::optional<cuda::Event> complete;  // recorded after the bucket's last gradient
  };
  std::vector<Arrivals> arrivals;  // by device
  std::unique_ptr<std::atomic<std::size_t>> devices_left = std::make_unique<std::atomic<std::size_t>>(0);
  bool is_needed = false;    // some gradient is to be summed
  bool is_complete = false;  // guarded by launch_mutex
  bool is_reduced = false;

  /// The sum of earlier backwards, by device; with sharding, the device's shard of it. Empty if there is no earlier
  /// sum, and from Shard::gradients on, where it is in the devices' shares (GradientMemory).
  std::vector<Tensor> earlier;

  std::vector<std::uint64_t> versions;  // version counts of `flats` when the devices were last in lockstep

  void are_in_lockstep() {
    versions.clear();
    for (const Tensor& flat : flats) versions.push_back(flat.version());
  }
  // True if the bucket was changed in place more often on one device than on another since they were in lockstep.
  bool has_drifted() const {
    const auto changes = [&](std::size_t d) { return flats[d].version() - versions[d]; };
    for (std::size_t d = 1; d < flats.size(); ++d)
      if (changes(d) != changes(0)) return true;
    return false;
  }
};

struct GradientBuckets::Impl final : ReplicaOwner, std::enable_shared_from_this<GradientBuckets::Impl> {
  std::vector<Device> devices;
  BucketOptions options;
  Shard shard = Shard::none;
  std::vector<std::shared_ptr<BucketedParameter>> parameters;  // by entry, which is the parameter's number
  std::vector<GradientBucket> buckets;
  std::vector<std::size_t> bucket_of;                   // by entry
  std::vector<Stream> streams;                          // the communicator's streams, by device
  std::shared_ptr<ParameterUnits> units;                // from Shard::hybrid on
  std::vector<std::shared_ptr<BucketBuffers>> buffers;  // by device, from Shard::gradients on
  World world;
  double share_without_pass = 1;
  std::shared_ptr<CallLog> calls;            // null for a single process
  std::optional<Communicator> communicator;  // over all processes
  std::optional<UsedParameterMap> used_map;
  Summing summing;

  RankedMutex<LockRank::gradient_buckets> mutex;  // held during every use of this state except ready()
  bool is_running = false;
  bool is_released = false;
  std::vector<std::size_t> order;      // entries, in the order in which backward reaches the primary's leaves
  bool has_order = false;              // a backward that sums has run
  bool has_rebuilt = false;            // buckets were rebuilt in that order, or could not be; the same in all processes
  bool has_unsynced_backward = false;  // a backward that did not sum has run since the last one that did

  // A parameter with hooks, or any parameter in a backward that keeps graphs: its earlier gradient is set aside, and is
  // added only after the gradient of this backward was computed by itself and the hooks have run.
  struct ObservedParameter {
    std::shared_ptr<BucketedParameter> parameter;
    Tensor earlier;
  };
  std::vector<ObservedParameter> observed;
  bool keeps_graph_now = false;
  std::atomic<bool> meets_now = false;

  bool may_have_partial = false;  // this or another process may have gradients that are not summed

  std::vector<std::size_t> leaves_left;  // by device: leaves that the present backward is not done with
  std::atomic<bool> sums_now = false;    // the present backward sums; changes only while no leaf can become ready

  RankedMutex<LockRank::bucket_launch> launch_mutex;  // guards the members below; nothing is enqueued under it
  RankedCondition has_launched;
  std::size_t next_bucket = 0;
  std::size_t launching = 0;             // buckets in the launcher's queue or being launched
  std::size_t launched_until = 0;        // all buckets before this one were launched, or are not needed
  std::exception_ptr launch_failure;     // the first launch's error: no later bucket is launched
  std::optional<DeviceThread> launcher;  // the last member, because its jobs use the others

  std::size_t count() const noexcept { return devices.size(); }
  bool is_alone() const noexcept { return world.size() == 1; }

  // Overrides of autograd::GradientListener; backward calls them.
  void begin(std::span<const autograd::Replica* const> leaves, bool keeps_graph, bool meets) override;
  void ready(const autograd::Replica& leaf) override;
  autograd::Ahead is_ahead(const Device& device) override;
  void end(bool failed) override;
  double weight_without_pass() const noexcept override { return share_without_pass; }

  // Overrides of ReplicaOwner, and calls of GradientBuckets. All take `mutex`, except have_parameters().
  bool have_parameters() const;
  void check_idle(const char* op) override;
  void complete_gradient(std::size_t entry) override;
  void reconcile(std::size_t entry) override;
  void gradient_dropped(std::size_t entry) override;
  void begin_update() override;
  void abandon_update(bool fails_others) noexcept override;
  void all_gather(std::span<autograd::ReplicatedParameter* const> parameters) override;
  std::vector<Tensor> all_gather_numbers(std::span<const Tensor> numbers) override;
  void add(std::span<nn::ModuleBase* const> modules);
  /// Registers the gradients with a step that is or will be captured: captured_buckets.cpp. Takes `mutex`.
  void use_in_step();
  class StepState;
  /// Sums and gathers the gradients that are not whole, and makes the replicas stale.
  void release();
  /// As release(), but drops the gradients that are not whole.
  void drop() noexcept;
  bool has_partial() const;  ///< True if gradients of this process are not summed.

  // Call these with `mutex` held, except before the buckets are shared.
  std::vector<std::vector<Tensor>> untracked_parameters(std::span<nn::ModuleBase* const> modules) const;
  void connect();
  void prepare(std::span<const autograd::Replica* const> leaves, bool keeps_graph, bool meets);
  void take_order(std::span<const autograd::Replica* const> leaves);
  void stash_earlier_gradients(std::span<const autograd::Replica* const> leaves, bool all);
  // Defined in earlier_sums.cpp:
  autograd::ShardRange own_part(const GradientBucket& bucket, std::size_t device) const;
  bool has_earlier_sum(const GradientBucket& bucket) const;
  void keep_earlier_sum(GradientBucket& bucket);
  void add_earlier_sum(const GradientBucket& bucket, std::size_t device);
  void start_reductions(std::span<const autograd::Replica* const> leaves);
  bool is_needed(const GradientBucket& bucket) const;
  void prepare_for_backward(std::span<const autograd::Replica* const> leaves);
  void end_others_if_incomplete();
  void end_others();
  void finish_reductions();
  void finalize_buckets();
  std::vector<bool> used() const;
  void reduce_partial_gradients();
  void all_gather_gradients(std::span<BucketedParameter* const> which);
  void all_gather_shards(std::span<BucketedParameter* const> which, ShardedTensor (BucketedParameter::*of)() const);
  BucketLayout lay_out(std::span<const std::vector<Tensor>> tensors, std::span<const std::size_t> in_order) const;
  void take_layout(BucketLayout layout);
  void place(std::span<const std::shared_ptr<BucketedParameter>> which, BucketLayout layout);
  void rebuild_buckets();
  bool agree_on_order();
  bool all_processes_agree(bool is_there, const char* what) const;
  std::vector<std::size_t> rebuilt_order() const;
  bool are_divided_as(std::vector<std::vector<std::size_t>> others) const;
  bool fit_slots() const;
  bool can_rebuild() const;
  void reconcile_gradients(GradientBucket& bucket);
  void reconcile_all_gradients();

  // These need no lock.
  void run_hooks(const ObservedParameter& each, bool keeps_graph);
  void restore(std::span<const ObservedParameter> all) noexcept;
  void mark_leaf_ready(GradientBucket& bucket, std::size_t device);
  void mark_device_ready(GradientBucket& bucket, std::size_t device);
  void mark_bucket_ready(GradientBucket& bucket);
  void launch(GradientBucket& bucket) noexcept;
  std::exception_ptr await_launches();
  void reduce(GradientBucket& bucket);
  void call_comm_hook(GradientBucket& bucket);
};

}  // namespace lockstep
