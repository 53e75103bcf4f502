// Prepared: a module on a Trainer's devices. With one device in one process the module is called directly, with more
// devices or processes through DataParallel.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/data/batch_share.h>
#include <lockstep/parallel/data_parallel.h>

namespace lockstep::train {

namespace detail {

/// A module that refers to another module, which must outlive it. A copy (a replica) owns a copy of that other module.
template <class M>
class Borrowed : public nn::Module<Borrowed<M>> {
 public:
  explicit Borrowed(M& module) noexcept : module_(&module) {}
  Borrowed(const Borrowed& other) : own_(std::make_unique<M>(*other.module_)), module_(own_.get()) {}
  Borrowed(Borrowed&&) noexcept = default;

  template <class... Arguments>
  decltype(auto) forward(Arguments&&... arguments) {
    return (*module_)(std::forward<Arguments>(arguments)...);
  }
  void visit(const nn::Path& path, nn::Visitor& visitor) override {
    static_cast<nn::ModuleBase&>(*module_).visit(path, visitor);
  }

 private:
  std::unique_ptr<M> own_;
  M* module_;
};

/// The rows of each batch that a process with this many devices gets.
inline data::BatchShare share_of(const World& world, std::size_t devices) {
  return {.process = world.rank().value(), .processes = world.size(), .devices = int(devices)};
}

}  // namespace detail

/// Moves the module to the first device, in place: handles to its parameters stay valid, and training this object
/// trains the module. The module must outlive this object. One thread at a time.
///
/// Outputs have as many dimensions as on one device: if DataParallelOptions::gather is Gather::concatenate, a 0-dim
/// output is the mean of the replicas' outputs, weighted by rows.
template <class M>
class Prepared {
  static_assert(!std::derived_from<M, lockstep::detail::DataParallelMark>,
                "a Trainer takes the module itself, and makes the DataParallel");

 public:
  /// At least one device; `options` without device_ids. Throws as DataParallel does.
  Prepared(M& module, const std::vector<Device>& devices, DataParallelOptions options = {})
      : module_(&module),
        device_(devices.front()),
        world_(options.world),
        loss_(options.loss),
        dim_(options.scatter.dim),
        share_(detail::share_of(world_, devices.size())) {
    module_->to(device_);
    if (devices.size() == 1 && world_.size() == 1) return;
    if (options.gather == Gather::concatenate) options.gather = Gather::by_ndim;
    for (const Device& device : devices)
      if (device.is_cuda()) options.device_ids.push_back(device.index());
    parallel_.emplace(detail::Borrowed<M>(module), std::move(options));
  }

  /// Runs forward(arguments...). Tensors in the arguments must be on device().
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) -> std::decay_t<decltype(std::declval<M&>()(arguments...))> {
    if (parallel_) return (*parallel_)(std::forward<Arguments>(arguments)...);
    batch_rows_ = -1;
    (count_rows(arguments), ...);
    batch_rows_ = std::max<std::int64_t>(batch_rows_, 0);
    const bool checks = unnamed_.is_enabled();
    if (checks) (unnamed_.add_input(arguments), ...);
    if constexpr (std::is_void_v<decltype((*module_)(std::forward<Arguments>(arguments)...))>) {
      (*module_)(std::forward<Arguments>(arguments)...);
    } else {
      decltype(auto) output = (*module_)(std::forward<Arguments>(arguments)...);
      if (checks) unnamed_.check(*module_, output);
      return output;
    }
  }

  M& module() noexcept { return *module_; }  ///< The original module.
  Device device() const noexcept { return device_; }
  /// Devices of this process.
  std::size_t device_count() const noexcept { return parallel_ ? parallel_->devices().size() : 1; }
  const World& world() const noexcept { return world_; }  ///< The processes that train together.
  /// How the losses of the processes are combined (DataParallelOptions::loss).
  ProcessLoss process_loss() const noexcept { return loss_; }
  /// Rows of the last batch over all processes, counted in the first tensor among the arguments.
  std::int64_t batch_rows() const noexcept { return parallel_ ? parallel_->batch_rows() : batch_rows_; }
  /// Rows of the last batch in this process.
  std::int64_t own_rows() const noexcept { return parallel_ ? parallel_->own_rows() : batch_rows_; }
  std::int64_t batch_dim() const noexcept { return dim_; }  ///< The dimension of a batch that holds its rows.
  /// As DataParallel::over_processes(). The Trainer applies it to the losses that loss functions return.
  WeightedMean over_processes(const WeightedMean& mean) const {
    return parallel_ ? parallel_->over_processes(mean) : mean;
  }
  /// This process's rows of each batch, for the loader's options.
  const data::BatchShare& share() const noexcept { return share_; }

  /// As DataParallel::no_sync(); no effect without DataParallel.
  [[nodiscard]] auto no_sync() {
    using Guard = std::optional<typename DataParallel<detail::Borrowed<M>>::NoSync>;
    if (parallel_) return Guard(std::in_place, *parallel_);
    return Guard();
  }

 private:
  // Sets batch_rows_ to the size along dim_ of the first tensor that is not 0-dim, as DataParallel's scatter does.
  template <class Argument>
  void count_rows(const Argument& argument) {
    if constexpr (kHoldsTensors<Argument>)  // the const_cast is safe: the function below does not change the tensors
      for_each_tensor(const_cast<Argument&>(argument), MemberPath(), [&](const MemberPath&, const Tensor& tensor) {
        if (batch_rows_ < 0 && tensor.defined() && tensor.dim() > 0) batch_rows_ = tensor.size(int(dim_));
      });
  }

  M* module_;
  Device device_;
  World world_;
  ProcessLoss loss_;
  std::int64_t dim_;
  std::int64_t batch_rows_ = 0;
  data::BatchShare share_;
  std::optional<DataParallel<detail::Borrowed<M>>> parallel_;
  lockstep::detail::UnnamedParameters unnamed_;
};

}  // namespace lockstep::train
