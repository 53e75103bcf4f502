#include "parallel/all_gather_shards.h"

#include <algorithm>

#include <lockstep/core/error.h>

#include "parallel/bucket_layout.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

using autograd::ShardRange;

Tensor part_of(const Tensor& tensor, std::int64_t begin, std::int64_t size) {
  return make_view(tensor, {size}, {1}, tensor.impl()->offset + begin);
}

// All-gathers the arrays in place: rank r has counts[r] elements, which begin where those of the rank before end.
void all_gather_in_place(Communicator& communicator, std::span<const Tensor> arrays,
                         std::span<const std::size_t> counts) {
  std::size_t rank = std::size_t(communicator.first_rank().value()), first = 0;
  for (std::size_t r = 0; r < rank; ++r) first += counts[r];
  std::vector<RankBuffers> buffers;
  for (const Tensor& array : arrays) {
    const Stream stream = current_stream(array.device());
    array.record_stream(stream);
    std::byte* const begin = array.impl()->data();
    buffers.push_back({stream, begin + first * size_of(array.dtype()), begin});
    first += counts[rank++];
  }
  communicator.all_gather(buffers, counts, arrays[0].dtype());
}

// The shards of several tensors in an array: those of a rank after each other, and as much room for each rank.
class Staging {
 public:
  Staging(std::size_t ranks, std::span<const ShardedTensor> tensors) : tensors_(tensors) {
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::size_t elements = 0;
      for (const ShardedTensor& each : tensors) elements += in_places(each.shards[rank].size());
      most = std::max(most, elements);
    }
    counts_.assign(ranks, most);
  }

  const std::vector<std::size_t>& counts() const { return counts_; }

  Tensor make_array(std::size_t device) const {
    const Tensor& like = tensors_[0].tensors[device];
    return make_tensor(device_state(like.device()), {std::int64_t(counts_[0] * counts_.size())}, like.dtype());
  }

  // Copies the shards of the ranks for which is_copied(rank) between the device's array and its tensors.
  template <class IsCopied>
  void copy(std::size_t device, const Tensor& array, bool into_array, const IsCopied& is_copied) const {
    std::vector<Tensor> in_array, in_tensors;
    for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
      if (!is_copied(rank)) continue;
      std::int64_t at = std::int64_t(rank * counts_[rank]);
      for (const ShardedTensor& each : tensors_) {
        const ShardRange shard = each.shards[rank];
        if (shard.size() == 0) continue;
        in_tensors.push_back(part_of(each.tensors[device], shard.begin, shard.size()));
        in_array.push_back(part_of(array, at, shard.size()));
        at += std::int64_t(in_places(shard.size()));
      }
    }
    if (in_array.empty()) return;
    into_array ? copy_together(in_array, in_tensors) : copy_together(in_tensors, in_array);
  }

 private:
  const std::span<const ShardedTensor> tensors_;
  std::vector<std::size_t> counts_;  // by rank; all equal
};

}  // namespace

void all_gather_shards(Communicator& communicator, std::span<const ShardedTensor> tensors) {
  if (tensors.empty()) return;
  if (tensors.size() == 1) {
    std::vector<std::size_t> counts;
    for (const ShardRange& shard : tensors[0].shards) counts.push_back(std::size_t(shard.size()));
    return all_gather_in_place(communicator, tensors[0].tensors, counts);
  }
  const std::size_t devices = communicator.devices().size();
  const Staging staging(std::size_t(communicator.size()), tensors);
  std::vector<Tensor> arrays;
  try {
    for (std::size_t d = 0; d < devices; ++d) arrays.push_back(staging.make_array(d));
  } catch (const OutOfMemory&) {
    if (std::size_t(communicator.size()) != devices) throw;  // other processes have memory
    arrays.clear();
    for (std::size_t i = 0; i < tensors.size(); ++i) all_gather_shards(communicator, tensors.subspan(i, 1));
    return;
  }
  const auto first_rank = std::size_t(communicator.first_rank().value());
  for (std::size_t d = 0; d < devices; ++d)
    staging.copy(d, arrays[d], true, [own = first_rank + d](std::size_t rank) { return rank == own; });
  all_gather_in_place(communicator, arrays, staging.counts());
  for (std::size_t d = 0; d < devices; ++d)
    staging.copy(d, arrays[d], false, [own = first_rank + d](std::size_t rank) { return rank != own; });
}

}  // namespace lockstep
