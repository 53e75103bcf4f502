#include <lockstep/parallel/replica_set.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/runtime/drain.h>

#include "autograd/several_processes.h"
#include "core/text.h"
#include "distributed/call_log.h"
#include "nn/each_state.h"
#include "parallel/replica_group_impl.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/transient_memory.h"

namespace lockstep::detail {
namespace {

std::string frozen_parameters(const nn::ModuleBase& module) {
  std::string names;
  nn::for_each_state(module, [&](const nn::Path& path, nn::Parameter& value) {
    if (!value.requires_grad()) names += (names.empty() ? "" : ", ") + path.str();
  });
  return names;
}

}  // namespace

std::vector<Device> resolve_devices(const std::vector<int>& device_ids) {
  if (device_ids.empty()) return try_all_gpus();
  std::vector<Device> devices;
  for (const int id : device_ids) {
    const Device device = Device::cuda(id);
    expect_visible("DataParallel", device);
    if (std::find(devices.begin(), devices.end(), device) != devices.end())
      throw InvalidArgument(text("[DataParallel] expected each device once, got ", device, " twice"));
    devices.push_back(device);
  }
  return devices;
}

void move_to_device(nn::ModuleBase& module, Device device, bool parameters_stay) {
  for (const auto& [path, each] : module.named_modules())
    if (dynamic_cast<DataParallelMark*>(each))
      throw InvalidArgument(
          text("[DataParallel] expected a module without DataParallel inside, got one at \"", path, "\""));
  bool any_off_cpu = false;
  nn::for_each_state(module, [&](const nn::Path&, const nn::State& value) {
    any_off_cpu = any_off_cpu || (value.defined() && !value.device().is_cpu());
  });
  if (any_off_cpu || !parameters_stay) {
    if (!any_off_cpu) module.to(device);
    return ReplicaSync::check_placement(module, device);
  }
  ReplicaSync::check_placement(module, Device());
  nn::for_each_state(module, [&](const nn::Path&, nn::State& value) {
    if (!value.requires_grad()) value.place(device);
  });
}

void check_output_device(Device device) {
  if (is_lost(device)) expect_visible("DataParallel", device);
  if (device.is_cuda() && try_gpu(device.index()) != device)
    throw InvalidArgument(text("[DataParallel] expected output_device to be the CPU or one of ", cuda::device_count(),
                               " visible GPUs, got ", device));
}

void refuse_sharding(Shard shard) {
  if (shard != Shard::none)
    throw InvalidArgument(text("[data_parallel] expected Shard::none, got Shard::", shard,
                               ": data_parallel() destroys its replicas after the pass. Use DataParallel, which keeps "
                               "them"));
}

void refuse_nesting() {
  if (inside_replica())
    throw InvalidArgument(
        "[DataParallel] called inside a replica of another pass: call a DataParallel outside of replicas, and the "
        "plain module inside");
}

ReplicaSet::ReplicaSet(DataParallelOptions options)
    : options_(std::move(options)), devices_(resolve_devices(options_.device_ids)) {
  GradientBuckets::check(options_.buckets, options_.shard);
}

void ReplicaSet::set_module(std::unique_ptr<nn::ModuleBase> module, Copy copy) {
  module_ = std::move(module);
  copy_ = copy;
  check_output_device(output_device());
  group_ = std::make_shared<ReplicaGroup>(devices_, options_.world);
  if (options_.world.size() > 1) calls_ = std::make_shared<CallLog>(options_.world);
  shard_sizes(0, devices_.size(), options_.scatter);  // throws for weights that do not match the devices
  draining(devices_, [this] {
    move_to_device(*module_, devices_.front(), options_.shard >= Shard::hybrid && !is_alone());
    // All processes must have the same module, and the same values of the options listed here.
    const BucketOptions& buckets = options_.buckets;
    check_and_broadcast_model(
        options_.world, *module_, devices_.front(),
        text("devices: ", devices_.size(), ", buckets of ", buckets.first_bytes, " and ", buckets.bytes,
             " bytes, shard: ", options_.shard, ", comm_hook: ", int(bool(buckets.comm_hook)),
             ", loss: ", int(options_.loss), ", gather: ", int(options_.gather)));
    make_replicas();
  });
}

Device ReplicaSet::output_device() const { return module(), options_.output_device.value_or(devices_.front()); }

data::BatchShare ReplicaSet::share() const {
  const World& world = options_.world;
  return {.process = world.rank().value(), .processes = world.size(), .devices = int(devices_.size())};
}

bool ReplicaSet::is_weighted() const noexcept {
  return options_.world.size() > 1 && options_.loss == ProcessLoss::mean;
}

void ReplicaSet::check_call() const {
  refuse_nesting();
  check_output_device(output_device());
  ReplicaSync::check_placement(module(), devices_.front());
}

ProcessPass ReplicaSet::locate_rows(const std::vector<std::int64_t>& rows) {
  batch_rows_ = own_rows_ = std::reduce(rows.begin(), rows.end());
  if (options_.world.size() == 1) return {.all_rows = batch_rows_};
  if (const std::string frozen = frozen_parameters(*module_); !frozen.empty())
    calls_->add("frozen parameters: " + frozen + '\n');
  if (!buckets_.are_current()) calls_->add("another DataParallel or Trainer took the parameters\n");
  calls_->add(text("forward() in ", module().is_training() ? "training" : "evaluation", " mode",
                   *summing_ ? "" : " under no_sync()", '\n'));
  const ProcessPass place = process_pass(options_.world, *calls_, batch_rows_, devices_.size(), options_.scatter);
  batch_rows_ = place.all_rows;
  return place;
}

// If losses are means, backward multiplies this process's loss by its share of the rows, and a mean over processes does
// the same. But the sums of a WeightedMean must be added over the processes as they are. So this process's sum is
// divided by its share first.
WeightedMean ReplicaSet::over_processes(const WeightedMean& mean) const {
  if (options_.world.size() == 1 || mean.weight.local_factors) return mean;
  double share = batch_rows_ > 0 ? double(own_rows_) / double(batch_rows_) : 1.0 / double(options_.world.size());
  if (const auto shares = autograd::shares_of_pass(mean.sum)) share = shares->own();
  const Tensor weight = copied(mean.weight, device_state(devices_.front()), kFloat64);
  group_->impl().sum(std::span(&weight, 1), std::array{current_stream(devices_.front())});
  const double of_sum = is_weighted() && share > 0 ? share : 1;
  WeightedMean all(of_sum == 1 ? Tensor(mean.sum) : mean.sum / of_sum, weight.to(mean.weight.device()));
  all.weight.local_factors = {.sum = of_sum, .weight = share};
  return all;
}

std::optional<ScatterOptions> ReplicaSet::scatter_as_one_process(const ProcessPass& place,
                                                                 const std::vector<std::int64_t>& rows) const {
  if (options_.world.size() == 1) return std::nullopt;
  ScatterOptions as_one_process = options_.scatter;
  as_one_process.length = place.length;
  if (shard_sizes(place.rows, devices_.size(), as_one_process) == rows) return std::nullopt;
  return as_one_process;
}

std::vector<nn::ModuleBase*> ReplicaSet::sync_replicas(std::size_t count) {
  if (!is_alone()) {
    buckets_.begin_pass(count);
    const bool is_kept = buckets_.are_current() && buckets_.have_parameters();
    const ReplicaFit fit = is_kept ? sync_.update(*module_) : ReplicaFit::none;
    if (fit == ReplicaFit::none) make_replicas();
    if (fit == ReplicaFit::all_but_gradients) {
      buckets_.add(modules(devices_.size()));
      if (options_.shard >= Shard::hybrid) sync_.update(*module_);  // again: the added parameters have new memory
    }
  }
  return modules(count);
}

std::vector<nn::ModuleBase*> ReplicaSet::modules(std::size_t count) const {
  std::vector<nn::ModuleBase*> all = {module_.get()};
  for (std::size_t i = 1; i < count; ++i) all.push_back(replicas_[i - 1].get());
  return all;
}

ReplicaPass ReplicaSet::pass_over(const std::vector<std::int64_t>& rows, const ProcessPass& place) const {
  return {.rows = rows,
          .dim = options_.scatter.dim,
          .group = group_,
          .first_row = place.first_row,
          .all_rows = place.all_rows,
          .first_replica = place.first_replica};
}

void ReplicaSet::has_run(std::size_t replica) noexcept { buckets_.leave_pass(replica, grad_enabled()); }

void ReplicaSet::fail_pass() noexcept {
  for (std::size_t d = 0; d < devices_.size(); ++d) buckets_.leave_pass(d, false);
  sync_.fail_pass();
}

void ReplicaSet::end_pass(const std::vector<std::int64_t>& rows, const ProcessPass& place) {
  sync_.end_pass(*module_, rows, place.all_rows, *group_);
}

void ReplicaSet::fail_processes() const noexcept {
  if (options_.world.size() > 1) detail::fail_processes(options_.world);
}

void ReplicaSet::make_replicas() {
  if (is_alone()) return;
  buckets_.release();
  sync_ = ReplicaSync();  // reset first: if the lines below throw, the next forward makes all again
  buckets_ = GradientBuckets();
  replicas_.clear();
  {  // these units, or those of a former model, may hold states that are not divided now
    const NoGrad guard;
    nn::for_each_state(*module_, [&](const nn::Path&, const nn::State& state) {
      if (state.defined() && !(options_.shard >= Shard::hybrid && state.requires_grad())) make_permanent(state);
    });
  }
  const nn::CopyAs as = options_.shard >= Shard::hybrid ? nn::CopyAs::without_memory : nn::CopyAs::own;
  for (std::size_t i = 1; i < devices_.size(); ++i) replicas_.push_back(copy_(*module_, devices_[i], as));
  const std::vector<nn::ModuleBase*> all = modules(devices_.size());
  buckets_ = GradientBuckets(all, devices_, options_.buckets, options_.shard, summing_, options_.world, calls_,
                             is_weighted() ? 1 / double(options_.world.size()) : 1);
  sync_.reset(*module_, std::span(all).subspan(1));
}

}  // namespace lockstep::detail
