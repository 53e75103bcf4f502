// Runs replicas at once: the first on the caller's thread, each other one on its device's persistent host thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/parallel/replica_group.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

/// What makes replicas one pass over one batch.
struct ReplicaPass {
  std::span<const std::int64_t> rows = {};        ///< Of each replica's shard; none if no batch was divided.
  std::int64_t dim = 0;                           ///< The dimension that it was divided along.
  std::shared_ptr<ReplicaGroup> group = nullptr;  ///< Kept from pass to pass, if there are several.
};

/// Calls job(0) on this thread and every other job(i) on the thread of devices[i], all at once, and waits for all. (In
/// a hook on the thread of devices[j] this thread calls job(j).) Jobs inherit the caller's current streams and gradient
/// mode. Each draws random numbers from a sequence of its own that depends on the caller's and on i; draw_for_batch()
/// gives all the numbers that the caller would get. What they print() appears when all have finished, in the order of
/// i. The failure of the lowest i is thrown, of its own type, with "in replica i on cuda:d" in its message and the
/// others attached. Passes that share a device come one after the other. Throws InvalidArgument, before any job runs,
/// for no device, one that is not there, one that is given twice, and for several from inside a replica.
LOCKSTEP_API void run_replicas(std::span<const Device> devices, const std::function<void(std::size_t)>& job,
                               const ReplicaPass& pass = {});

/// True in one of several replicas.
LOCKSTEP_API bool inside_replica() noexcept;

namespace detail {

template <class T>
T&& unwrapped(T&& value) noexcept {
  return std::forward<T>(value);
}
template <class T>
T& unwrapped(std::reference_wrapper<T>&& reference) noexcept {
  return reference.get();
}

template <class M, class... Arguments>
decltype(auto) call_with(M& module, std::tuple<Arguments...>&& inputs) {
  return std::apply([&](Arguments&&... each) -> decltype(auto) { return module(unwrapped(std::move(each))...); },
                    std::move(inputs));
}

}  // namespace detail

/// The results of modules[i](inputs[i]...) on devices[i], where a reference_wrapper stands for what it refers to. There
/// are as many replicas as inputs; inputs are tuples.
template <class M, class... Arguments>
auto parallel_apply(std::span<M* const> modules, std::vector<std::tuple<Arguments...>>& inputs,
                    std::span<const Device> devices, const ReplicaPass& pass = {}) {
  using Result = decltype(detail::call_with(*modules[0], std::move(inputs[0])));
  const auto call = [&](std::size_t i) -> decltype(auto) {
    return detail::call_with(*modules[i], std::move(inputs[i]));
  };
  const std::span<const Device> used = devices.first(inputs.size());
  if constexpr (std::is_void_v<Result>) {
    run_replicas(used, call, pass);
  } else {
    std::vector<std::optional<std::decay_t<Result>>> outputs(inputs.size());
    run_replicas(
        used, [&](std::size_t i) { outputs[i].emplace(call(i)); }, pass);
    std::vector<std::decay_t<Result>> results;
    for (auto& output : outputs) results.push_back(std::move(*output));
    return results;
  }
}

}  // namespace lockstep
