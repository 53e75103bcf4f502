#include <lockstep/parallel/gather.h>

#include <algorithm>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>

#include "autograd/record.h"
#include "core/text.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

using autograd::Gradients;

std::vector<Device> devices_of(std::span<const Tensor> parts) {
  std::vector<Device> devices;
  for (const Tensor& part : parts) devices.push_back(part.device());
  return devices;
}

void check_parts(const std::string& name, std::span<const Tensor> parts, int free_dim, std::string_view source) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    Shape sizes = parts[i].sizes();
    if (free_dim >= 0 && sizes.rank() == parts[0].dim()) sizes[free_dim] = parts[0].sizes()[free_dim];
    if (sizes != parts[0].sizes())
      throw ShapeError(text("[gather] expected ", name, " of ", source, ' ', i, " to fit ", parts[0].sizes(), " of ",
                            source, " 0, got ", parts[i].sizes()));
    if (parts[i].dtype() != parts[0].dtype())
      throw DTypeError(text("[gather] expected ", name, " of ", source, ' ', i, " to be ", parts[0].dtype(), " as in ",
                            source, " 0, got ", parts[i].dtype()));
  }
}

// Concatenates the parts; 0-dim parts become elements of a vector. If some replicas had rows, leaves out the 0-dim
// parts of replicas without rows, because these are meaningless.
Tensor concatenate(std::span<const Tensor> parts, DeviceState& device, int dim, const std::vector<std::int64_t>& rows) {
  const bool scalars = parts[0].dim() == 0;
  const bool any_rows = rows.size() == parts.size() && std::ranges::any_of(rows, [](auto count) { return count > 0; });
  Shape sizes = scalars ? Shape{0} : parts[0].sizes();
  std::vector<std::int64_t> lengths;
  sizes[dim] = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    lengths.push_back(scalars ? !any_rows || rows[i] > 0 : parts[i].sizes()[dim]);
    sizes[dim] += lengths.back();
  }
  Tensor out = make_tensor(device, sizes, parts[0].dtype());
  std::int64_t from = 0;
  for (std::size_t i = 0; i < parts.size(); from += lengths[i++]) {
    const Tensor place = out.narrow(dim, from, lengths[i]);
    if (lengths[i] > 0) copy_values(scalars ? place.select(0, 0) : place, parts[i]);
  }
  if (autograd::any_records(parts))
    autograd::record_many(
        "Gather", std::span(&out, 1), parts, [scalars, dim, lengths, homes = devices_of(parts)](const Tensor& g) {
          Gradients gradients;
          std::int64_t at = 0;
          for (std::size_t i = 0; i < homes.size(); at += lengths[i++])
            if (scalars && lengths[i] == 0)  // zeros, so that its backward runs: other replicas may wait for it
              gradients.push_back(zeros({}, {.dtype = g.dtype(), .device = homes[i]}));
            else
              gradients.push_back((scalars ? g.select(0, at) : g.narrow(dim, at, lengths[i])).to(homes[i]));
          return gradients;
        });
  return out;
}

// The sum of the parts, weighted by their shares of the rows, added in order of replicas.
Tensor weighted_mean(std::span<const Tensor> parts, Device device, const std::vector<std::int64_t>& rows) {
  double total = 0;
  for (const std::int64_t count : rows) total += double(count);
  Tensor mean;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (total > 0 && rows[i] == 0) continue;  // the mean of no rows is NaN
    const double share = total > 0 ? double(rows[i]) / total : 1 / double(parts.size());
    const Tensor term = parts[i].to(device) * share;
    mean = mean.defined() ? mean + term : term;
  }
  return mean;
}

// The sum, added in order of replicas.
Tensor sum_of(std::span<const Tensor> parts, Device device) {
  Tensor sum = parts[0].to(device);
  for (const Tensor& part : parts.subspan(1)) sum = sum + part.to(device);
  return sum;
}

[[noreturn]] void throw_structure_differs(const std::string& name, std::string_view source, std::size_t number) {
  throw InvalidArgument(text("[gather] ", source, ' ', number, " returned ", name,
                             " with other members, tensors or container sizes than ", source,
                             " 0: return the same structure from every ", source));
}

[[noreturn]] void throw_value_differs(const std::string& name, std::string_view source, std::size_t number) {
  throw InvalidArgument(text("[gather] expected ", name, ", which is not a tensor, to be equal in every ", source,
                             ", got another value in ", source, ' ', number,
                             ": return a 0-dim tensor to have it gathered"));
}

}  // namespace

Tensor gather_tensors(const std::string& name, std::span<const Tensor> parts, Device device,
                      const GatherOptions& options) {
  if (parts.empty()) detail::throw_no_parts(name);
  DeviceState& target = device_state(device);
  const int rank = parts[0].dim();
  if (options.how == Gather::sum) {
    check_parts(name, parts, -1, options.source);
    return sum_of(parts, device);
  }
  if (options.how == Gather::mean || (options.how == Gather::by_ndim && rank == 0)) {
    if (!is_floating(parts[0].dtype()))
      throw DTypeError(text("[gather] expected a floating dtype for the mean of ", name, ", got ", parts[0].dtype()));
    if (!options.rows.empty() && options.rows.size() != parts.size())
      throw InvalidArgument(
          text("[gather] expected one row count for each of ", parts.size(), " parts, got ", options.rows.size()));
    check_parts(name, parts, -1, options.source);
    if (parts.size() == 1) return parts[0].to(device);
    return weighted_mean(parts, device,
                         options.rows.empty() ? std::vector<std::int64_t>(parts.size(), 1) : options.rows);
  }
  const int dim = rank == 0 ? 0 : wrap_dim("gather", options.dim, rank);
  check_parts(name, parts, rank == 0 ? -1 : dim, options.source);
  if (parts.size() == 1 && rank > 0) return parts[0].to(device);
  return concatenate(parts, target, dim, options.rows);
}

void detail::throw_no_parts(const std::string& name) {
  throw InvalidArgument(text("[gather] expected at least one part of ", name, ", got none"));
}

void detail::check_parts_agree(const std::string& name, std::span<const OutputParts> outputs, std::string_view source) {
  const OutputParts& first = outputs[0];
  const auto same_name = [](const auto& a, const auto& b) { return a.name == b.name; };
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    const OutputParts& other = outputs[i];
    if (other.extents != first.extents || !std::ranges::equal(other.tensors, first.tensors, same_name) ||
        !std::ranges::equal(other.others, first.others, same_name))
      throw_structure_differs(name, source, i);
    for (std::size_t k = 0; k < first.others.size(); ++k)
      if (!first.others[k].equal(first.others[k].value, other.others[k].value))
        throw_value_differs(first.others[k].name, source, i);
    for (std::size_t k = 0; k < first.tensors.size(); ++k)
      if (other.tensors[k].tensor.defined() != first.tensors[k].tensor.defined())
        throw_structure_differs(first.tensors[k].name, source, i);
  }
}

}  // namespace lockstep
