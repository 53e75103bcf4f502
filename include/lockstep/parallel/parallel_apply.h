// Runs replicas at once: the first on the caller's thread, every other on its device's persistent host thread.
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

/// One pass: several replicas run at once, each on its shard of one batch.
struct ReplicaPass {
  std::span<const std::int64_t> rows = {};        ///< Rows of each replica's shard; empty if no batch was divided.
  std::int64_t dim = 0;                           ///< The dimension along which the batch was divided.
  std::shared_ptr<ReplicaGroup> group = nullptr;  ///< Shared by several passes; null makes a new one.

  // Set only if the pass spans several processes; then the group's World has these processes:
  std::int64_t first_row = 0;                 ///< These replicas' first row in the whole batch.
  std::optional<std::int64_t> all_rows = {};  ///< Rows of the whole batch; by default the sum of `rows`.
  std::size_t first_replica = 0;              ///< The number of this process's first replica among all replicas.
};

/// Calls job(0) on this thread and every other job(i) on the thread of devices[i], all at once, and waits for all. (In
/// a hook on the thread of devices[j], this thread calls job(j).) Jobs inherit the caller's current streams and
/// gradient mode. Each job draws random numbers from its own sequence, which depends on the caller's sequence and on i.
/// In every job draw_for_batch() returns the numbers that the caller would draw. Text that jobs print() appears after
/// all jobs have finished, in the order of i. If jobs fail, throws the failure of the lowest i with its own type, with
/// "in replica i on cuda:d" in its message and the other failures attached. Passes that share a device run one after
/// the other. Before any job runs, throws InvalidArgument if no device is given, if a device does not exist or is given
/// twice, or if several devices are given inside a replica.
LOCKSTEP_API void run_replicas(std::span<const Device> devices, const std::function<void(std::size_t)>& job,
                               const ReplicaPass& pass = {});

/// True inside one of several replicas.
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
/// Throws InvalidArgument if there are no inputs, or fewer replicas or devices than inputs.
LOCKSTEP_API void check_counts(std::size_t replicas, std::size_t inputs, std::size_t devices);
[[noreturn]] LOCKSTEP_API void throw_no_device(std::size_t replica);

// The device on which a replica runs: the device of its parameters, or, if it has none, of its input.
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

/// The results of call(i), run by run_replicas(), in order.
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

/// Returns the results of replicas[i](inputs[i]), all run at once (run_replicas). Replicas are modules or pointers to
/// them; replicas without an input do not run. An input that is a std::tuple holds the arguments, in which a
/// reference_wrapper stands for its target; a temporary vector of inputs is moved from. Replica i runs on devices[i]
/// or, without devices, on the device of its parameters or of its input. Before any replica runs, throws
/// InvalidArgument if there are no inputs, more inputs than replicas or devices, or a replica without any device.
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
