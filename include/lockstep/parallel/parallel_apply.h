// Runs replicas at once: the first on the caller's thread, each other one on its device's persistent host thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/parallel/replica_group.h>
#include <lockstep/runtime/device.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep {

/// What makes replicas one pass over one batch.
struct ReplicaPass {
  std::span<const std::int64_t> rows = {};        ///< Of each replica's shard; none if no batch was divided.
  std::int64_t dim = 0;                           ///< The dimension that it was divided along.
  std::shared_ptr<ReplicaGroup> group = nullptr;  ///< Kept from pass to pass, if there are several.

  // Where other processes have replicas too: those of the group's World.
  std::int64_t first_row = 0;                 ///< Of these replicas, in the whole batch.
  std::optional<std::int64_t> all_rows = {};  ///< Of the whole batch; the sum of `rows` unless given.
  std::size_t first_replica = 0;              ///< The number of the first among those of all processes.
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

template <class... Arguments>
std::tuple<Arguments...> as_arguments(std::tuple<Arguments...> arguments) {
  return arguments;
}
template <class Argument>
std::tuple<Argument> as_arguments(Argument argument) {
  return {std::move(argument)};
}

template <class M, class Input>
decltype(auto) call_with(M& module, Input&& input) {
  return std::apply([&](auto&&... each) -> decltype(auto) { return module(unwrapped(std::move(each))...); },
                    as_arguments(std::forward<Input>(input)));
}

template <class Replica>
auto& module_of(Replica& replica) {
  if constexpr (std::is_pointer_v<Replica>)
    return *replica;
  else
    return replica;
}

/// The device of the module's first parameter or buffer.
LOCKSTEP_API std::optional<Device> device_of(nn::ModuleBase& module);
/// Throw InvalidArgument.
LOCKSTEP_API void check_counts(std::size_t replicas, std::size_t inputs, std::size_t devices);
[[noreturn]] LOCKSTEP_API void throw_no_device(std::size_t replica);

// Where a replica runs: where it is, or its input if it has no parameters.
template <class M, class Input>
Device home_of(M& module, Input input, std::size_t replica) {
  std::optional<Device> home;
  if constexpr (std::derived_from<M, nn::ModuleBase>) home = device_of(module);
  for_each_tensor(input, MemberPath(), [&](const MemberPath&, const Tensor& tensor) {
    if (!home) home = tensor.device();
  });
  if (!home) throw_no_device(replica);
  return *home;
}

/// What run_replicas() has call(i) return, in order.
template <class Call>
auto results_of_replicas(std::span<const Device> devices, const Call& call, const ReplicaPass& pass) {
  using Result = std::decay_t<decltype(call(0))>;
  std::vector<std::optional<Result>> outputs(devices.size());
  run_replicas(
      devices, [&](std::size_t i) { outputs[i].emplace(call(i)); }, pass);
  std::vector<Result> results;
  for (auto& output : outputs) results.push_back(std::move(*output));
  return results;
}

}  // namespace detail

/// The results of replicas[i](inputs[i]), all at once (run_replicas). Replicas are modules or pointers to them; those
/// without an input do not run. An input that is a std::tuple is the arguments, where a reference_wrapper stands for
/// what it refers to; a temporary vector of inputs is moved from. Each runs on devices[i], or, where no devices are
/// given, on that of its parameters or its input's. Throws InvalidArgument, before any runs, for no inputs, more inputs
/// than replicas or devices, and a replica without any device.
template <std::ranges::random_access_range Replicas, std::ranges::random_access_range Inputs>
auto parallel_apply(Replicas&& replicas, Inputs&& inputs, std::span<const Device> devices = {},
                    const ReplicaPass& pass = {}) {
  using Input = std::ranges::range_value_t<Inputs>;
  constexpr bool kKeepsInputs = std::is_lvalue_reference_v<Inputs> || std::ranges::borrowed_range<Inputs>;
  const std::size_t count = inputs.size();
  detail::check_counts(replicas.size(), count, devices.empty() ? count : devices.size());
  std::vector<Device> homes(devices.begin(), devices.end());
  for (std::size_t i = homes.size(); i < count; ++i)
    homes.push_back(detail::home_of(detail::module_of(replicas[i]), inputs[i], i));
  const auto call = [&](std::size_t i) -> decltype(auto) {
    auto& module = detail::module_of(replicas[i]);
    if constexpr (kKeepsInputs)
      return detail::call_with(module, Input(inputs[i]));
    else
      return detail::call_with(module, std::move(inputs[i]));
  };
  const std::span<const Device> used = std::span(homes).first(count);
  if constexpr (std::is_void_v<decltype(call(0))>)
    run_replicas(used, call, pass);
  else
    return detail::results_of_replicas(used, call, pass);
}

}  // namespace lockstep
