// Prepared: a module where a Trainer put it. On one device it is called as it is, on several through DataParallel.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/parallel/data_parallel.h>

namespace lockstep::train {

namespace detail {

/// A module that is someone else's, as a value: copies, which replicas are, own theirs.
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

}  // namespace detail

/// Moves the module to the first device, in place: handles to its parameters stay valid, and what trains this trains
/// them. The module must outlive this. Called by one thread at a time.
template <class M>
class Prepared {
  static_assert(!std::derived_from<M, lockstep::detail::DataParallelMark>,
                "a Trainer takes the module itself, and makes the DataParallel");

 public:
  /// At least one device; `options` without device_ids. Throws as DataParallel does.
  Prepared(M& module, const std::vector<Device>& devices, DataParallelOptions options = {})
      : module_(&module), device_(devices.front()) {
    module_->to(device_);
    if (devices.size() == 1) return;
    for (const Device& device : devices) options.device_ids.push_back(device.index());
    parallel_.emplace(detail::Borrowed<M>(module), std::move(options));
  }

  /// Runs forward(arguments...). Tensors in them are on device().
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) -> std::decay_t<decltype(std::declval<M&>()(arguments...))> {
    if (parallel_) return (*parallel_)(std::forward<Arguments>(arguments)...);
    return (*module_)(std::forward<Arguments>(arguments)...);
  }

  M& module() noexcept { return *module_; }
  Device device() const noexcept { return device_; }
  std::size_t device_count() const noexcept { return parallel_ ? parallel_->devices().size() : 1; }

  /// As DataParallel's; nothing on one device.
  [[nodiscard]] auto no_sync() {
    using Guard = std::optional<typename DataParallel<detail::Borrowed<M>>::NoSync>;
    if (parallel_) return Guard(std::in_place, *parallel_);
    return Guard();
  }

 private:
  M* module_;
  Device device_;
  std::optional<DataParallel<detail::Borrowed<M>>> parallel_;
};

}  // namespace lockstep::train
