// Gather: joins the outputs of replicas on one device.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/parallel/tensors_in.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

enum class Gather : std::uint8_t {
  concatenate,  ///< Along dim, straight into one buffer. 0-dim tensors become a vector.
  mean,         ///< The mean, weighted by the shards' sizes: a mean loss of shards equals that of the full batch.
};

struct GatherOptions {
  std::int64_t dim = 0;
  Gather how = Gather::concatenate;
  std::vector<std::int64_t> rows = {};  ///< The shards' sizes: the weights of mean. Empty for equal ones.
};

/// Joins parts, one of each replica, on `device`. Differentiable. Throws ShapeError or DTypeError naming `name`
/// and the replica whose part does not fit the first.
LOCKSTEP_API Tensor gather_tensors(const std::string& name, std::span<const Tensor> parts, Device device,
                                   const GatherOptions& options);

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_nothing(const std::string& name);
[[noreturn]] LOCKSTEP_API void throw_structure_differs(const std::string& name, std::size_t replica);
[[noreturn]] LOCKSTEP_API void throw_value_differs(const std::string& name, std::size_t replica);
LOCKSTEP_API void check_definedness(const std::string& name, std::span<const Tensor> parts);
}  // namespace detail

namespace detail {

/// A part of an output that is not a tensor, and how to compare it with another replica's.
struct OtherPart {
  std::string name;
  const void* value;
  bool (*equal)(const void*, const void*);
};

// Numbers that are NaN are equal: each replica may have come to the same.
template <class T>
bool equal_values(const T& a, const T& b) {
  if constexpr (std::floating_point<T>)
    return a == b || (a != a && b != b);
  else if constexpr (std::is_empty_v<T>)
    return true;
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
  if constexpr (kShowsTensors<T>) return equal_values(*static_cast<const T*>(a), *static_cast<const T*>(b));
  return false;
}

}  // namespace detail

/// Joins values of one structure: every tensor in them; other parts must be equal in all replicas. Throws
/// InvalidArgument for parts that are not, and for values whose structure differs. Does not compile for other parts
/// that cannot be compared.
template <class T>
T gather(std::vector<T> values, Device device, const GatherOptions& options = {}, const std::string& name = "output") {
  if (values.empty()) detail::throw_nothing(name);
  std::vector<std::vector<NamedTensor>> tensors(values.size());
  std::vector<std::vector<detail::OtherPart>> others(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    visit_tensors(
        values[i], name,
        [&](const std::string& at, Tensor& tensor) {
          tensors[i].push_back({at, tensor});
        },
        [&]<class Part>(const std::string& at, const Part& part) {
          others[i].push_back({at, &part, &detail::equal_parts<Part>});
        });
  const auto same_names = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return x.name == y.name; });
  };
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (!same_names(tensors[i], tensors[0]) || !same_names(others[i], others[0]))
      detail::throw_structure_differs(name, i);
    for (std::size_t k = 0; k < others[0].size(); ++k)
      if (!others[0][k].equal(others[0][k].value, others[i][k].value))
        detail::throw_value_differs(others[0][k].name, i);
  }
  std::size_t k = 0;
  visit_tensors(
      values[0], name,
      [&](const std::string& at, Tensor& tensor) {
        std::vector<Tensor> parts;
        for (auto& of_replica : tensors) parts.push_back(of_replica[k].tensor);
        ++k;
        detail::check_definedness(at, parts);
        if (tensor.defined()) tensor = gather_tensors(at, parts, device, options);
      },
      [](const std::string&, const auto&) {});
  return std::move(values[0]);
}

}  // namespace lockstep
