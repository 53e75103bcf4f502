#include "parallel/all_gather_shards.h"

#include "tensor/tensor_impl.h"

namespace lockstep {

void all_gather_shards(Communicator& communicator, std::span<const ShardedTensor> tensors) {
  std::vector<Stream> streams;
  for (const Device& device : communicator.devices()) streams.push_back(current_stream(device));
  std::vector<Transfer> transfers;  // of bytes: dtypes may differ
  for (const ShardedTensor& sharded : tensors)
    for (std::size_t from = 0; from < sharded.size(); ++from) {
      const auto& [tensor, shard] = sharded[from];
      tensor.record_stream(streams[from]);
      const std::size_t element = size_of(tensor.dtype()), offset = std::size_t(shard.begin) * element;
      for (std::size_t to = 0; to < sharded.size() && shard.begin < shard.end; ++to)
        if (to != from)
          transfers.push_back({int(from), int(to), tensor.impl()->data() + offset,
                               sharded[to].tensor.impl()->data() + offset,
                               std::size_t(shard.end - shard.begin) * element});
    }
  if (!transfers.empty()) communicator.send_receive(streams, transfers, kUInt8);
}

}  // namespace lockstep
