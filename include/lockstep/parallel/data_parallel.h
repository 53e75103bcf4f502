// DataParallel: one module on several devices. Splits each batch, runs replicas at once, joins their outputs.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/moved_from.h>
#include <lockstep/data/batch_share.h>
#include <lockstep/nn/callable.h>
#include <lockstep/nn/module.h>
#include <lockstep/parallel/gather.h>
#include <lockstep/parallel/gradient_buckets.h>
#include <lockstep/parallel/parallel_apply.h>
#include <lockstep/parallel/process_pass.h>
#include <lockstep/parallel/replicate.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/parallel/unnamed_parameters.h>
#include <lockstep/runtime/drain.h>

namespace lockstep {

/// Numbers of GPUs. Unlike a vector it does not take two names in braces, {"cuda:0", "cuda:1"}, for a range.
class DeviceIds : public std::vector<int> {
 public:
  DeviceIds() = default;
  DeviceIds(std::initializer_list<int> ids) : std::vector<int>(ids) {}
  template <std::same_as<std::vector<int>> Ids>             // not deduced from braces
  DeviceIds(Ids ids) : std::vector<int>(std::move(ids)) {}  ///< Those of a vector.
};

struct DataParallelOptions {
  DeviceIds device_ids = {};                 ///< In any order; empty for all visible ones.
  std::optional<Device> output_device = {};  ///< Where outputs are gathered; the first of device_ids if not given.
  ScatterOptions scatter = {};               ///< How batches are divided.
  Gather gather = Gather::concatenate;       ///< How outputs are joined.
  BucketOptions buckets = {};                ///< Of the gradients.
  World world = {};  ///< The processes that train the model together, each on devices of its own, as many in each.
  ProcessLoss loss = ProcessLoss::mean;  ///< What a loss is where several processes train.
};

namespace detail {

struct DataParallelMark {};  // a base by which a DataParallel is known, whatever its module

/// The devices to run on. Throws InvalidArgument for one that is not there or is given twice, BackendError for one that
/// was lost.
LOCKSTEP_API std::vector<Device> resolve_devices(const std::vector<int>& device_ids);
/// Moves a module that is wholly on the CPU to `device`; otherwise refuses what is not there. Refuses lazy parameters
/// and DataParallel inside.
LOCKSTEP_API void adopt(nn::ModuleBase& module, Device device);
/// Throws InvalidArgument for one that is not there.
LOCKSTEP_API void check_output_device(Device device);
/// Throws InvalidArgument inside a replica.
LOCKSTEP_API void refuse_nesting();

// Arguments that may hold tensors are copied (as handles) for each replica; others are given by reference if they
// can outlive the call or cannot be copied.
template <class Argument, class Value = std::decay_t<Argument>>
using Shared = std::conditional_t<
    std::derived_from<Value, Tensor>, Tensor,
    std::conditional_t<
        !kHoldsTensors<Value> && (std::is_lvalue_reference_v<Argument> || !std::copy_constructible<Value>),
        std::reference_wrapper<
            std::remove_reference_t<std::conditional_t<std::is_lvalue_reference_v<Argument>, Argument, const Value>>>,
        Value>>;

template <class Argument>
Shared<Argument> shared(std::remove_reference_t<Argument>& argument) {
  require_shown_tensors<std::decay_t<Argument>>();
  if constexpr (std::copy_constructible<std::decay_t<Argument>>)
    return static_cast<Argument&&>(argument);
  else
    return argument;
}

}  // namespace detail

/// Owns a module and keeps a replica of it on each device. On one device it calls the module itself; a 0-dim output
/// becomes a vector of one element there too, so that its rank does not depend on the number of devices. Not to be
/// called from several threads at once. Keys of its state dict carry "module.". One that was moved from throws
/// InvalidArgument.
///
/// Backward sums the replicas' gradients while it runs (GradientBuckets), so that gradients equal those of the whole
/// batch; optimizers take the same step on every replica.
///
/// With a world of several processes, each makes the model (it gets process 0's parameters), and calls it, backward
/// and the optimizer in the same order, each with its own rows of the batch (data::LoaderOptions::share). Gradients are
/// then those of all processes' rows. docs/many-hosts.md.
template <class M>
class DataParallel : public nn::Module<DataParallel<M>>, public detail::DataParallelMark {
  static_assert(!std::is_base_of_v<detail::DataParallelMark, M>, "the module is a DataParallel already");
  static_assert(nn::IsItself<M>, "a module that derives from another one: hold that as a member instead");

 public:
  /// Takes a module that is on the CPU (and moves it) or on the first device; for good: a temporary, std::move(module)
  /// or copy(module). Throws DeviceMismatch naming a parameter that is elsewhere, and InvalidArgument for a module that
  /// holds a DataParallel or a lazy parameter.
  explicit DataParallel(M&& module, DataParallelOptions options = {})
      : options_(std::move(options)),
        devices_(detail::resolve_devices(options_.device_ids)),
        module_(std::make_unique<M>(std::move(module))) {
    detail::check_output_device(output_device());
    group_ = std::make_shared<ReplicaGroup>(devices_, options_.world);
    shard_sizes(0, devices_.size(), options_.scatter);  // refuses weights that do not fit
    detail::draining(devices_, [this] {
      detail::adopt(*module_, device());
      detail::begin_as_first(options_.world, *module_, device(), options_text());
      make_replicas();
    });
  }
  explicit DataParallel(const M&, const DataParallelOptions& = {}) { nn::detail::require_given<const M&>(); }
  explicit DataParallel(const DataParallel& other) : DataParallel(M(other.module()), other.options_) {
    this->set_mode(other.is_training());
  }
  DataParallel(DataParallel&&) = default;
  DataParallel& operator=(const DataParallel& other) { return *this = DataParallel(other); }  ///< Takes over a copy.
  /// Takes over the other's module and replicas.
  DataParallel& operator=(DataParallel&& other) noexcept {
    DataParallel taken(std::move(other));  // in the end it takes along what this held
    std::swap(options_, taken.options_);
    std::swap(devices_, taken.devices_);
    std::swap(module_, taken.module_);
    std::swap(replicas_, taken.replicas_);
    std::swap(sync_, taken.sync_);
    std::swap(buckets_, taken.buckets_);
    std::swap(group_, taken.group_);
    std::swap(summing_, taken.summing_);
    std::swap(batch_rows_, taken.batch_rows_);
    std::swap(unnamed_, taken.unnamed_);
    this->set_mode(taken.is_training());
    return *this;
  }

  auto members() { return nn::members("module", module()); }
  /// The module on the first device, which optimizers, state dicts and users see.
  M& module() { return detail::there(module_, "DataParallel", "a model"); }
  const M& module() const { return detail::there(module_, "DataParallel", "a model"); }

  /// Where the module's own parameters are: the first device.
  Device device() const { return module(), devices_.front(); }
  const std::vector<Device>& devices() const noexcept { return devices_; }  ///< In the order of replicas.
  /// Where outputs are gathered.
  Device output_device() const { return module(), options_.output_device.value_or(device()); }
  const World& world() const noexcept { return options_.world; }  ///< The processes that train together.
  /// Which rows of each batch this process gives to the model: for loaders.
  data::BatchShare share() const {
    return {.process = world().rank().value(), .processes = world().size(), .devices = int(devices().size())};
  }
  /// Rows of the last batch, over all processes.
  std::int64_t batch_rows() const noexcept { return batch_rows_; }

  /// Splits every tensor in the arguments along scatter.dim over the devices, runs module(arguments...) on each at
  /// once, and gathers what they return on output_device(). Arguments may be anywhere; those without tensors go to
  /// every replica unchanged. Errors are those of scatter, run_replicas and gather; they leave none in the devices'
  /// streams.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    detail::refuse_nesting();
    detail::check_output_device(output_device());
    ReplicaSync::check_placement(module(), device());
    return detail::draining(devices_, [&] {
      const bool looks = unnamed_.looks();
      if (looks) (unnamed_.add_input(arguments), ...);
      if constexpr (std::is_void_v<decltype(pass(std::forward<Arguments>(arguments)...))>) {
        pass(std::forward<Arguments>(arguments)...);
      } else {
        auto output = pass(std::forward<Arguments>(arguments)...);
        if (looks) unnamed_.look(module(), output);
        return output;
      }
    });
  }

  /// While the guard lives, backward leaves each device its own gradients. The next backward after it sums them all, or
  /// whoever asks for them first: grad(), an optimizer's step, clipping. The guard may outlive the model.
  class [[nodiscard]] NoSync {
   public:
    /// From now on.
    explicit NoSync(DataParallel& model)
        : summing_((model.module(), model.summing_)), outer_(summing_->exchange(false)) {}
    ~NoSync() { *summing_ = outer_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    const GradientBuckets::Summing summing_;
    const bool outer_;
  };
  /// Accumulate without summing, as long as what it returns lives.
  NoSync no_sync() { return NoSync(*this); }

 private:
  template <class... Arguments>
  auto pass(Arguments&&... arguments) {
    std::vector<std::int64_t> rows;
    std::tuple<detail::Shared<Arguments>...> given(detail::shared<Arguments>(arguments)...);
    detail::GradientShare weight;
    if (is_weighted()) for_each_tensor(given, Path("arguments"), [&](const Path&, Tensor& x) { x = weight.input(x); });
    auto inputs = scatter(given, devices_, options_.scatter, "arguments", &rows);
    batch_rows_ = std::reduce(rows.begin(), rows.end());
    if (options_.world.size() == 1) return run(inputs, rows, {.all_rows = batch_rows_}, weight);
    const detail::ProcessPass place =
        detail::process_pass(options_.world, batch_rows_, devices_.size(), options_.scatter);
    batch_rows_ = place.all_rows;
    try {
      ScatterOptions as_one_process = options_.scatter;
      as_one_process.length = place.length;
      if (const auto sizes = shard_sizes(place.rows, devices_.size(), as_one_process); sizes != rows)
        inputs = scatter(given, devices_, as_one_process, "arguments", &rows);
      return run(inputs, rows, place, weight);
    } catch (...) {
      detail::fail_processes(options_.world);
      throw;
    }
  }

  template <class Inputs>
  auto run(Inputs& inputs, const std::vector<std::int64_t>& rows, const detail::ProcessPass& place,
           detail::GradientShare& weight) {
    const std::vector<M*> modules = ready_modules(inputs.size());
    const std::span<M* const> used(modules);
    const std::int64_t dim = options_.scatter.dim;
    const ReplicaPass how = {.rows = rows,
                             .dim = dim,
                             .group = group_,
                             .first_row = place.first_row,
                             .all_rows = place.all_rows,
                             .first_replica = place.first_replica};
    try {
      if constexpr (std::is_void_v<decltype(detail::call_with(*module_, std::move(inputs[0])))>) {
        parallel_apply(used, std::move(inputs), devices_, how);
        sync_.end_pass(*module_, modules.size(), *group_, place.all_replicas);
      } else {
        const auto outputs = parallel_apply(used, std::move(inputs), devices_, how);
        sync_.end_pass(*module_, modules.size(), *group_, place.all_replicas);
        auto output = gather(outputs, output_device(), {.dim = dim, .how = options_.gather, .rows = rows});
        if (!is_weighted()) return output;
        return detail::weighted_by_process(std::move(output), place, dim, options_.gather == Gather::mean, weight);
      }
    } catch (...) {
      sync_.fail_pass();
      throw;
    }
  }

  bool is_weighted() const noexcept { return options_.world.size() > 1 && options_.loss == ProcessLoss::mean; }
  bool is_alone() const noexcept { return devices_.size() == 1 && options_.world.size() == 1; }

  // What has to be the same in all processes, beside the module.
  std::string options_text() const {
    return "devices: " + std::to_string(devices_.size()) + ", buckets of " +
           std::to_string(options_.buckets.first_bytes) + " and " + std::to_string(options_.buckets.bytes) +
           " bytes, shard_optimizer_state: " + std::to_string(options_.buckets.shard_optimizer_state) +
           ", loss: " + std::to_string(int(options_.loss)) + ", gather: " + std::to_string(int(options_.gather));
  }

  void make_replicas() {
    if (is_alone()) return;
    buckets_.release();
    sync_ = ReplicaSync();  // and a new one only when all is there: should it fail, the next forward begins again
    buckets_ = GradientBuckets();
    replicas_.clear();
    std::vector<nn::ModuleBase*> all = {module_.get()};
    for (std::size_t i = 1; i < devices_.size(); ++i) {
      replicas_.push_back(std::make_unique<M>(detail::copy_on(*module_, devices_[i])));
      all.push_back(replicas_.back().get());
    }
    buckets_ = GradientBuckets(all, devices_, options_.buckets, summing_, options_.world);
    sync_.reset(*module_, std::span(all).subspan(1));
  }

  // The module and as many of its replicas as will run, all equal to it.
  std::vector<M*> ready_modules(std::size_t count) {
    if (!is_alone() && !(buckets_.are_current() && sync_.update(*module_))) make_replicas();
    std::vector<M*> modules = {module_.get()};
    for (std::size_t i = 1; i < count; ++i) modules.push_back(replicas_[i - 1].get());
    return modules;
  }

  DataParallelOptions options_;
  std::vector<Device> devices_;
  std::unique_ptr<M> module_;
  std::vector<std::unique_ptr<M>> replicas_;  // of devices_[1], devices_[2], ...
  ReplicaSync sync_;
  GradientBuckets::Summing summing_ = std::make_shared<std::atomic<bool>>(true);
  GradientBuckets buckets_;
  std::shared_ptr<ReplicaGroup> group_;
  std::int64_t batch_rows_ = 0;
  detail::UnnamedParameters unnamed_;
};

/// A function or lambda is a module too (nn::Functional).
template <class F>
requires(!std::derived_from<std::remove_cvref_t<F>, nn::ModuleBase>) DataParallel(F&&, DataParallelOptions = {})
->DataParallel<nn::Functional<std::decay_t<F>>>;

/// One forward pass of `module` over several GPUs, without keeping replicas: replicate, scatter, parallel_apply,
/// gather. Backward brings the module's parameters the gradients of the whole batch. The module is on the first of the
/// GPUs, where it runs itself: what it does to its buffers there counts. (A temporary one that is wholly on the CPU is
/// moved.) An input that is a std::tuple is the arguments of forward(). Errors are those of DataParallel.
template <class Module, class Input>
auto data_parallel(Module&& module, Input&& input, const DataParallelOptions& options = {}) {
  using M = std::remove_reference_t<Module>;
  const std::vector<Device> devices = detail::resolve_devices(options.device_ids);
  const Device output_device = options.output_device.value_or(devices.front());
  detail::refuse_nesting();
  detail::check_output_device(output_device);
  if constexpr (std::is_lvalue_reference_v<Module>)
    ReplicaSync::check_placement(module, devices.front());
  else
    detail::adopt(module, devices.front());
  return detail::draining(devices, [&] {
    std::vector<std::int64_t> rows;
    auto inputs = scatter(detail::as_arguments(std::forward<Input>(input)), std::span<const Device>(devices),
                          options.scatter, "arguments", &rows);
    const auto others = std::span(devices).first(inputs.size()).subspan(1);
    std::vector<M> replicas = others.empty() ? std::vector<M>() : replicate(module, others);
    std::vector<M*> modules = {&module};
    for (M& replica : replicas) modules.push_back(&replica);
    const ReplicaPass how = {.rows = rows, .dim = options.scatter.dim};
    if constexpr (std::is_void_v<decltype(detail::call_with(module, std::move(inputs[0])))>)
      parallel_apply(modules, std::move(inputs), devices, how);
    else
      return gather(parallel_apply(modules, std::move(inputs), devices, how), output_device,
                    {.dim = options.scatter.dim, .how = options.gather, .rows = rows});
  });
}

}  // namespace lockstep
