#include "parallel/bucket_layout.h"

#include <algorithm>
#include <array>
#include <ostream>

#include <lockstep/autograd/grad_mode.h>

#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

using autograd::ShardRange;

// Alignment of the gradients in a bucket, in elements: 128 bytes of the narrowest dtype, 512 of the widest. Matrix
// products and elementwise kernels are fast if memory is aligned to 16 bytes.
constexpr std::int64_t kPlace = 64;

std::int64_t round_up(std::int64_t elements, std::int64_t granularity) {
  return (elements + granularity - 1) / granularity * granularity;
}

// The intersection of `shard` with [at, at + elements), as offsets from `at`.
ShardRange within(ShardRange shard, std::int64_t at, std::int64_t elements) {
  const auto place = [&](std::int64_t i) { return std::clamp<std::int64_t>(i - at, 0, elements); };
  return {place(shard.begin), place(shard.end)};
}

// Allocates the layout's last bucket on device d, and makes there the slots of its gradients (views of the bucket).
void lay_out_on(std::size_t d, std::span<const std::vector<Tensor>> parameters, std::int64_t elements,
                const MakeFlat& make_flat, BucketLayout& layout) {
  BucketMemory& bucket = layout.buckets.back();
  const Tensor& first = parameters[bucket.entries[0]][d];
  const Tensor& flat = bucket.flats.emplace_back(make_flat(d, first.device(), elements, first.dtype()));
  std::int64_t at = 0;
  for (const std::size_t e : bucket.entries) {
    const Tensor& parameter = parameters[e][d];
    layout.slots[e].memory.push_back(make_view(flat, parameter.sizes(), contiguous_strides(parameter.sizes()), at));
    if (d == 0) bucket.begins.push_back(at);
    at += round_up(parameter.numel(), kPlace);
  }
}

// Divides the layout's last bucket into shards, one for each of `ranks` ranks.
void divide(std::size_t ranks, std::span<const std::vector<Tensor>> parameters, std::int64_t elements,
            BucketLayout& layout) {
  BucketMemory& bucket = layout.buckets.back();
  const std::int64_t each = elements / std::int64_t(ranks);
  bucket.counts.assign(ranks, std::size_t(each));
  std::int64_t at = 0;
  for (const std::size_t e : bucket.entries) {
    const std::int64_t own = parameters[e][0].numel();
    for (std::int64_t r = 0; r < std::int64_t(ranks); ++r)
      layout.slots[e].shards.push_back(within({r * each, (r + 1) * each}, at, own));
    at += round_up(own, kPlace);
  }
}

}  // namespace

std::size_t in_places(std::int64_t elements) noexcept { return std::size_t(round_up(elements, kPlace)); }

std::size_t padded_bucket(std::size_t elements, std::size_t ranks) noexcept {
  return std::size_t(round_up(std::int64_t(elements), std::int64_t(ranks) * kPlace));
}

Tensor make_zeros(std::size_t, Device device, std::int64_t elements, DType dtype) {
  const Tensor flat = make_tensor(device_state(device), {elements}, dtype);
  fill_values(flat, 0);
  return flat;
}

std::ostream& operator<<(std::ostream& out, Shard shard) {
  constexpr std::array kNames = {"none", "optimizer_state", "gradients", "hybrid", "parameters"};
  return out << kNames.at(std::size_t(shard));
}

std::vector<std::vector<std::size_t>> divide_into_buckets(std::span<const std::vector<Tensor>> parameters,
                                                          std::span<const std::size_t> order,
                                                          const BucketOptions& options) {
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<std::size_t> bytes;
  std::vector<std::optional<std::size_t>> open(std::size_t(kFloat64) + 1);  // by dtype
  for (const std::size_t e : order) {
    const Tensor& parameter = parameters[e][0];
    const std::size_t size = std::size_t(parameter.numel()) * size_of(parameter.dtype());
    auto& current = open[std::size_t(parameter.dtype())];
    const std::size_t limit = current && *current == 0 ? options.first_bytes : options.bytes;
    if (!current || (bytes[*current] > 0 && bytes[*current] + size > limit)) {
      current = buckets.size();
      buckets.emplace_back();
      bytes.push_back(0);
    }
    buckets[*current].push_back(e);
    bytes[*current] += size;
  }
  return buckets;
}

BucketLayout lay_out_buckets(std::span<const std::vector<Tensor>> parameters, std::span<const std::size_t> order,
                             const BucketOptions& options, Shard shard, std::size_t processes,
                             const MakeFlat& make_flat) {
  const NoGrad guard;
  BucketLayout layout;
  layout.slots.resize(parameters.size());
  for (std::vector<std::size_t>& entries : divide_into_buckets(parameters, order, options)) {
    const std::size_t devices = parameters[entries[0]].size(), ranks = devices * processes;
    std::int64_t elements = 0;
    for (const std::size_t e : entries) elements += round_up(parameters[e][0].numel(), kPlace);
    elements = std::int64_t(padded_bucket(std::size_t(elements), ranks));
    layout.buckets.emplace_back().entries = std::move(entries);
    for (std::size_t d = 0; d < devices; ++d) lay_out_on(d, parameters, elements, make_flat, layout);
    if (shard != Shard::none) divide(ranks, parameters, elements, layout);
  }
  return layout;
}

}  // namespace lockstep
