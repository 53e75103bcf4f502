// DataParallel: one module on several devices. Splits each batch, runs replicas at once, joins their outputs.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/data/batch_share.h>
#include <lockstep/nn/callable.h>
#include <lockstep/nn/module.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/parallel/data_parallel_options.h>
#include <lockstep/parallel/gather.h>
#include <lockstep/parallel/gradient_buckets.h>
#include <lockstep/parallel/parallel_apply.h>
#include <lockstep/parallel/process_pass.h>
#include <lockstep/parallel/replica_set.h>
#include <lockstep/parallel/replicate.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/runtime/drain.h>

namespace lockstep {

namespace detail {

// Arguments that may hold tensors are copied (as handles) for each replica. Other arguments are passed by reference if
// they outlive the call or cannot be copied.
template <class Argument, class Value = std::decay_t<Argument>>
using Shared = std::conditional_t<
    std::derived_from<Value, Tensor>, Tensor,
    std::conditional_t<
        !kHoldsTensors<Value> && (std::is_lvalue_reference_v<Argument> || !std::copy_constructible<Value>),
        std::reference_wrapper<
            std::remove_reference_t<std::conditional_t<std::is_lvalue_reference_v<Argument>, Argument, const Value>>>,
        Value>>;

/// Calls visit(mean) for each WeightedMean in `value`.
template <class T, class Visit>
void for_each_weighted_mean(T& value, const Visit& visit) {
  if constexpr (std::same_as<T, WeightedMean>)
    visit(value);
  else if constexpr (kHoldsTensors<T> && kStructure<T> != Structure::piece)
    for_each_part(value, MemberPath(), [&](auto& part, const MemberPath&) { for_each_weighted_mean(part, visit); });
}

template <class Argument>
Shared<Argument> shared(std::remove_reference_t<Argument>& argument) {
  require_shown_tensors<std::decay_t<Argument>>();
  if constexpr (std::copy_constructible<std::decay_t<Argument>>)
    return static_cast<Argument&&>(argument);
  else
    return argument;
}

}  // namespace detail

/// Owns a module and keeps a replica of it on each device. With one device it calls the module itself, but a 0-dim
/// output still becomes a vector of one element, so that the output's rank does not depend on the number of devices.
/// Must not be called from several threads at once. The keys of its state dict begin with "module.". A moved-from model
/// throws InvalidArgument.
///
/// Backward sums the replicas' gradients while it runs (GradientBuckets), so that they equal the gradients of the whole
/// batch; optimizers take the same step on every replica. Parameters may be frozen and unfrozen between passes. On more
/// than one device, forward must not change a parameter that requires a gradient; if it does, the model throws an
/// InvalidArgument that names the parameter.
///
/// With a world of several processes, each process makes the model (and gets process 0's parameters), then calls the
/// model, backward and the optimizer in the same order, each with its own rows of the batch
/// (data::LoaderOptions::share). Gradients are then those of all processes' rows. docs/many-hosts.md.
template <class M>
class DataParallel : public nn::Module<DataParallel<M>>, public detail::DataParallelMark {
  static_assert(!std::is_base_of_v<detail::DataParallelMark, M>, "the module is a DataParallel already");
  static_assert(nn::IsMostDerived<M>, "the module derives from another module: hold that one as a member instead");

 public:
  /// Takes ownership of a module that is on the CPU (and moves it) or on the first device: pass a temporary,
  /// std::move(module) or copy(module). Throws DeviceMismatch naming a parameter on another device, and InvalidArgument
  /// for a module that holds a DataParallel or a lazy parameter.
  explicit DataParallel(M&& module, DataParallelOptions options = {}) : set_(std::move(options)) {
    set_.set_module(std::make_unique<M>(std::move(module)), [](const nn::ModuleBase& from, Device to, nn::CopyAs as) {
      return std::unique_ptr<nn::ModuleBase>(std::make_unique<M>(detail::copy_on(static_cast<const M&>(from), to, as)));
    });
  }
  explicit DataParallel(const M&, const DataParallelOptions& options = {}) : set_(options) {
    nn::detail::require_moved<const M&>();
  }
  /// (Sharded parameters are copied to the host first, because a device may have no room for all of them.)
  explicit DataParallel(const DataParallel& other)
      : DataParallel(
            other.set_.options().shard >= Shard::hybrid ? detail::copy_on(other.module(), Device()) : M(other.module()),
            other.set_.options()) {
    this->set_mode(other.is_training());
  }
  DataParallel(DataParallel&&) = default;
  DataParallel& operator=(const DataParallel& other) { return *this = DataParallel(other); }  ///< Takes a copy.
  /// Takes over the other's module and replicas.
  DataParallel& operator=(DataParallel&& other) noexcept {
    DataParallel taken(std::move(other));  // its destructor destroys this object's former parts
    std::swap(set_, taken.set_);
    this->nn::ModuleBase::operator=(static_cast<nn::ModuleBase&&>(taken));
    return *this;
  }

  auto members() { return nn::members("module", module()); }
  /// The module on the first device, which optimizers, state dicts and users see.
  M& module() { return static_cast<M&>(set_.module()); }
  const M& module() const { return static_cast<const M&>(set_.module()); }

  /// The device of the module's own parameters: the first one.
  Device device() const { return set_.module(), devices().front(); }
  const std::vector<Device>& devices() const noexcept { return set_.devices(); }  ///< The devices of the replicas.
  Device output_device() const { return set_.output_device(); }                   ///< The device of gathered outputs.
  const World& world() const noexcept { return set_.options().world; }  ///< The processes that train together.
  /// The rows of each batch that this process passes to the model: for loaders.
  data::BatchShare share() const { return set_.share(); }
  /// Rows of the last batch, over all processes.
  std::int64_t batch_rows() const noexcept { return set_.batch_rows(); }
  std::int64_t own_rows() const noexcept { return set_.own_rows(); }  ///< Rows of the last batch, in this process.

  /// Turns a mean that this process computed from the outputs of one pass into the mean over all processes' rows. The
  /// weight becomes the sum over the processes. Backward through the value then gives the gradients of the mean over
  /// all rows; the values of the processes, added with the weights of their losses (by rows, or 1 for
  /// ProcessLoss::sum), give this mean. All processes must call this. A WeightedMean that the module returned already
  /// covers all processes and is returned unchanged. Costs one all-reduce between the devices; the host does not wait
  /// for it.
  WeightedMean over_processes(const WeightedMean& mean) const {
    return detail::draining(devices(), [&] {
      try {
        return set_.over_processes(mean);
      } catch (...) {
        set_.fail_processes();
        throw;
      }
    });
  }

  /// Splits every tensor in the arguments along scatter.dim over the devices, runs module(arguments...) on all devices
  /// at once, and gathers the outputs on output_device(). Arguments may be on any device; those without tensors go to
  /// every replica unchanged. Throws the errors of scatter, run_replicas and gather; no error is left in the devices'
  /// streams.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    set_.check_call();
    return detail::draining(devices(), [&] {
      detail::UnnamedParameters& unnamed = set_.unnamed();
      const bool checks = unnamed.is_enabled();
      if (checks) (unnamed.add_input(arguments), ...);
      if constexpr (std::is_void_v<decltype(pass(std::forward<Arguments>(arguments)...))>) {
        pass(std::forward<Arguments>(arguments)...);
      } else {
        auto output = pass(std::forward<Arguments>(arguments)...);
        if (checks) unnamed.check(module(), output);
        return output;
      }
    });
  }

  /// While the guard lives, backward accumulates on each device without summing. The gradients are summed by the next
  /// backward after the guard, or at the first use of a gradient (grad(), an optimizer's step, clipping). If a
  /// parameter has a hook, backward sums in any case. The guard may outlive the model.
  class [[nodiscard]] NoSync {
   public:
    /// Turns summing off for this object's lifetime.
    explicit NoSync(DataParallel& model)
        : summing_((model.module(), model.set_.summing())), outer_(summing_->exchange(false)) {}
    ~NoSync() { *summing_ = outer_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    const GradientBuckets::Summing summing_;
    const bool outer_;
  };
  /// Makes backward accumulate without summing as long as the returned guard lives.
  NoSync no_sync() { return NoSync(*this); }

 private:
  template <class... Arguments>
  auto pass(Arguments&&... arguments) {
    std::vector<std::int64_t> rows;
    std::tuple<detail::Shared<Arguments>...> given(detail::shared<Arguments>(arguments)...);
    const auto entering = set_.is_weighted() ? detail::make_pending_shares() : nullptr;
    if (entering)
      for_each_tensor(given, MemberPath("arguments"),
                      [&](const MemberPath&, Tensor& x) { x = detail::mark_pass_boundary(x, entering); });
    auto inputs = scatter(given, devices(), set_.options().scatter, "arguments", &rows);
    const detail::ProcessPass place = set_.locate_rows(rows);
    if (entering) detail::set_shares(*entering, place);
    try {
      if (const auto other = set_.scatter_as_one_process(place, rows))
        inputs = scatter(given, devices(), *other, "arguments", &rows);
      return run(inputs, rows, place);
    } catch (...) {
      set_.fail_processes();
      throw;
    }
  }

  template <class Inputs>
  auto run(Inputs& inputs, const std::vector<std::int64_t>& rows, const detail::ProcessPass& place) {
    const std::vector<nn::ModuleBase*> modules = set_.sync_replicas(inputs.size());
    struct Run {
      detail::ReplicaSet& set;
      const std::size_t replica;
      ~Run() { set.has_run(replica); }
    };
    const auto call = [&](std::size_t i) -> decltype(auto) {
      const Run run{set_, i};
      return detail::call_with(static_cast<M&>(*modules[i]), std::move(inputs[i]));
    };
    const std::span<const Device> used = std::span(devices()).first(modules.size());
    const ReplicaPass how = set_.pass_over(rows, place);
    try {
      if constexpr (std::is_void_v<decltype(call(0))>) {
        run_replicas(used, call, how);
        set_.end_pass(rows, place);
      } else {
        auto outputs = detail::results_of_replicas(used, call, how);
        set_.end_pass(rows, place);
        const Gather join = set_.options().gather;
        const std::vector<bool> counts_rows = detail::counting_rows(outputs[0], join != Gather::concatenate);
        auto output = gather(std::move(outputs), output_device(), {.dim = how.dim, .how = join, .rows = rows});
        if (set_.is_weighted()) detail::mark_outputs(output, place, counts_rows);
        detail::for_each_weighted_mean(output, [&](WeightedMean& mean) { mean = set_.over_processes(mean); });
        return output;
      }
    } catch (...) {
      set_.fail_pass();
      throw;
    }
  }

  detail::ReplicaSet set_;
};

/// A function or lambda is a module too (nn::Functional).
template <class F>
requires(!std::derived_from<std::remove_cvref_t<F>, nn::ModuleBase>) DataParallel(F&&, DataParallelOptions = {})
->DataParallel<nn::Functional<std::decay_t<F>>>;

/// One forward pass of `module` over several GPUs, without keeping replicas: replicate, scatter, parallel_apply,
/// gather. Backward adds the gradients of the whole batch to the module's parameters. The module is on the first of the
/// GPUs and runs there itself, so changes of its buffers are kept. (A temporary module that is wholly on the CPU is
/// moved.) An input that is a std::tuple holds the arguments of forward(). Throws the errors of DataParallel.
template <class Module, class Input>
auto data_parallel(Module&& module, Input&& input, const DataParallelOptions& options = {}) {
  using M = std::remove_reference_t<Module>;
  const std::vector<Device> devices = detail::resolve_devices(options.device_ids);
  const Device output_device = options.output_device.value_or(devices.front());
  detail::refuse_sharding(options.shard);
  detail::refuse_nesting();
  detail::check_output_device(output_device);
  if constexpr (std::is_lvalue_reference_v<Module>)
    ReplicaSync::check_placement(module, devices.front());
  else
    detail::move_to_device(module, devices.front());
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
