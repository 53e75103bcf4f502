// Gather: joins the outputs of replicas on one device.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/ops/weighted_mean.h>
#include <lockstep/runtime/device.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep {

/// How outputs of replicas are joined. (A WeightedMean's sums and weights are always added.)
enum class Gather : std::uint8_t {
  concatenate,  ///< Concatenates along dim, into one buffer. 0-dim tensors become the elements of a vector; those of
                ///< empty shards are left out if other shards have rows.
  mean,         ///< The mean, weighted by the shards' sizes. If each part is the mean loss of its shard, the result is
                ///< the mean loss of the full batch.
  by_ndim,      ///< As mean for 0-dim tensors, as concatenate for others: the rank is the same as on one device.
  sum,          ///< The sum.
};

struct GatherOptions {
  std::int64_t dim = 0;
  Gather how = Gather::concatenate;     ///< How outputs are joined.
  std::vector<std::int64_t> rows = {};  ///< The shards' sizes: the weights of mean. Empty for equal weights.
  std::string_view source = "replica";  ///< The name of each part's origin in messages.
};

/// Joins the parts, one per replica, on `device`. Differentiable. Throws ShapeError or DTypeError naming `name` and the
/// replica whose part does not match replica 0's.
LOCKSTEP_API Tensor gather_tensors(const std::string& name, std::span<const Tensor> parts, Device device,
                                   const GatherOptions& options);

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_no_parts(const std::string& name);

/// The parts of one replica's output.
struct OutputParts {
  struct Other {  // not a tensor
    std::string name;
    const void* value;
    bool (*equal)(const void*, const void*);
  };
  std::vector<NamedTensor> tensors;
  std::vector<Other> others;
  std::vector<std::size_t> extents;
};
/// Throws InvalidArgument if the outputs differ in structure or in a part that is not a tensor.
LOCKSTEP_API void check_parts_agree(const std::string& name, std::span<const OutputParts> outputs,
                                    std::string_view source);

// True if T's operator== compiles. (For containers and aggregates this depends on their parts, which are checked too.)
template <class T>
consteval bool is_comparable();
template <class... T>
consteval bool are_comparable(PartTypes<T...>) {
  return (is_comparable<std::remove_cvref_t<T>>() && ...);
}
template <class T>
consteval bool is_comparable() {
  if constexpr (std::is_array_v<T>)
    return is_comparable<std::remove_cv_t<std::remove_extent_t<T>>>();
  else if constexpr (kStructure<T> != Structure::piece)
    return are_comparable(PartsOf<T>()) && std::equality_comparable<T>;
  else if constexpr (requires { requires !std::same_as<typename T::value_type, T>; })
    return is_comparable<typename T::value_type>() && std::equality_comparable<T>;
  else
    return std::equality_comparable<T> || std::is_empty_v<T>;
}

// Compares two replicas' values. NaN equals NaN, because replicas that all computed NaN agree.
template <class T>
bool equal_values(const T& a, const T& b) {
  if constexpr (std::floating_point<T>)
    return a == b || (a != a && b != b);
  else if constexpr (std::is_empty_v<T>)
    return true;
  else if constexpr (std::is_array_v<T>)
    return std::equal(std::begin(a), std::end(a), std::begin(b), equal_values<std::remove_extent_t<T>>);
  else if constexpr (requires { requires std::floating_point<std::decay_t<decltype(*a.begin())>>; })
    return a == b ||
           std::equal(a.begin(), a.end(), b.begin(), b.end(), equal_values<std::decay_t<decltype(*a.begin())>>);
  else if constexpr (requires {
                       requires std::floating_point<std::decay_t<decltype(a.value())>>;
                       a.has_value();
                     })
    return a == b || (a && b && equal_values(*a, *b));
  else
    return a == b;
}

template <class T>
bool equal_parts(const void* a, const void* b) {
  require_shown_tensors<T>();
  static_assert(!kHidesNoTensors<T> || is_comparable<T>(),
                "a part of an output that is no tensor must be equal in all replicas: give the type an operator==");
  if constexpr (is_comparable<T>()) return equal_values(*static_cast<const T*>(a), *static_cast<const T*>(b));
  return false;
}

}  // namespace detail

/// Joins values of one structure: gathers every tensor in them; all other parts must be equal in all replicas. Throws
/// InvalidArgument if they are not, or if the structures differ. Does not compile if a part that is not a tensor cannot
/// be compared.
template <class T>
T gather(std::vector<T> values, Device device, const GatherOptions& options = {}, const std::string& name = "output") {
  if (values.empty()) detail::throw_no_parts(name);
  const MemberPath whole(name);
  std::vector<detail::OutputParts> outputs(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    visit_tensors(
        values[i], whole,
        [&](const MemberPath& path, Tensor& tensor) {
          outputs[i].tensors.push_back({path.expression(), tensor});
        },
        [&]<class Part>(const MemberPath& path, const Part& part) {
          outputs[i].others.push_back({path.expression(), &part, &detail::equal_parts<Part>});
        },
        [&](const MemberPath&, std::size_t extent) { outputs[i].extents.push_back(extent); });
  detail::check_parts_agree(name, outputs, options.source);
  std::size_t k = 0;
  for_each_tensor(values[0], whole, [&]<class Part>(const MemberPath&, Part& tensor) {
    std::vector<Tensor> parts;
    while (!outputs[0].tensors[k].tensor.defined()) ++k;
    for (const detail::OutputParts& output : outputs) parts.push_back(output.tensors[k].tensor);
    const GatherOptions adding = {.how = Gather::sum};
    static_cast<Tensor&>(tensor) =
        gather_tensors(outputs[0].tensors[k++].name, parts, device, std::same_as<Part, Addend> ? adding : options);
  });
  return std::move(values[0]);
}

}  // namespace lockstep
