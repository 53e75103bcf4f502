// Gather: joins the outputs of replicas on one device.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <lockstep/parallel/tensors_in.h>
#include <lockstep/runtime/device.h>

namespace lockstep {

enum class Gather : std::uint8_t {
  kConcatenate,  ///< Along dim, straight into one buffer. 0-dim tensors become a vector.
  kMean,         ///< The mean, weighted by the shards' sizes: a mean loss of shards equals that of the full batch.
};

struct GatherOptions {
  std::int64_t dim = 0;
  Gather how = Gather::kConcatenate;
  std::vector<std::int64_t> rows = {};  ///< The shards' sizes: the weights of kMean. Empty for equal ones.
};

/// Joins parts, one of each replica, on `device`. Differentiable. Throws ShapeError or DTypeError naming `name`
/// and the replica whose part does not fit the first.
LOCKSTEP_API Tensor gather_tensors(const std::string& name, std::span<const Tensor> parts, Device device,
                                   const GatherOptions& options);

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_structure_differs(const std::string& name, std::size_t replica);
[[noreturn]] LOCKSTEP_API void throw_value_differs(const std::string& name, std::size_t replica);
LOCKSTEP_API void check_definedness(const std::string& name, std::span<const Tensor> parts);
}  // namespace detail

/// Joins values of one structure: every tensor in them; other parts must be equal in all replicas where they can be
/// compared. Throws InvalidArgument for parts that are not, and for values whose structure differs.
template <class T>
T gather(std::vector<T> values, Device device, const GatherOptions& options = {}, const std::string& name = "output") {
  std::vector<std::vector<NamedTensor>> tensors(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    visit_tensors(values[i], name,
                  [&](const std::string& at, Tensor& tensor) { tensors[i].push_back({at, tensor}); },
                  [](const std::string&, const auto&) {});
  for (std::size_t i = 1; i < values.size(); ++i) {
    bool same = tensors[i].size() == tensors[0].size();
    for (std::size_t k = 0; same && k < tensors[0].size(); ++k) same = tensors[i][k].name == tensors[0][k].name;
    if (!same) detail::throw_structure_differs(name, i);
    if constexpr (!kHoldsTensors<T> && std::equality_comparable<T>)
      if (!(values[i] == values[0])) detail::throw_value_differs(name, i);
  }
  std::size_t k = 0;
  visit_tensors(values[0], name, [&](const std::string& at, Tensor& tensor) {
    std::vector<Tensor> parts;
    for (auto& of_replica : tensors) parts.push_back(of_replica[k].tensor);
    ++k;
    detail::check_definedness(at, parts);
    if (tensor.defined()) tensor = gather_tensors(at, parts, device, options);
  }, [](const std::string&, const auto&) {});
  return std::move(values[0]);
}

}  // namespace lockstep
