#include "parallel/all_gather_shards.h"

#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// Collects messages between ranks, and sends them all at once: as bytes, because the tensors' dtypes may differ.
class Exchange {
 public:
  explicit Exchange(Communicator& communicator)
      : communicator_(communicator), first_rank_(std::size_t(communicator.first_rank().value())) {
    for (const Device& device : communicator.devices()) streams_.push_back(current_stream(device));
  }

  // Adds the message that sends rank `from`'s shard to rank `to`.
  void add(const ShardedTensor& sharded, autograd::ShardRange shard, std::size_t from, std::size_t to) {
    const std::size_t element = size_of(sharded.tensors[0].dtype());
    const auto place = [&](std::size_t rank) -> std::byte* {
      if (rank < first_rank_ || rank - first_rank_ >= streams_.size()) return nullptr;  // a rank of another process
      const Tensor& tensor = sharded.tensors[rank - first_rank_];
      tensor.record_stream(streams_[rank - first_rank_]);
      return tensor.impl()->data() + std::size_t(shard.begin) * element;
    };
    if (shard.size() > 0 && from != to)
      transfers_.push_back({int(from), int(to), place(from), place(to), std::size_t(shard.size()) * element});
  }

  void run() {
    if (!transfers_.empty()) communicator_.send_receive(streams_, transfers_, kUInt8);
  }

 private:
  Communicator& communicator_;
  const std::size_t first_rank_;
  std::vector<Stream> streams_;
  std::vector<Transfer> transfers_;
};

}  // namespace

void all_gather_shards(Communicator& all, Communicator& own_devices, std::span<const ShardedTensor> tensors) {
  const std::size_t devices = own_devices.devices().size(), ranks = std::size_t(all.size());
  Exchange between_processes(all), between_devices(own_devices);
  for (const ShardedTensor& sharded : tensors)
    for (std::size_t from = 0; from < ranks; ++from) {
      const std::size_t device = from % devices;
      for (std::size_t to = device; to < ranks; to += devices)
        between_processes.add(sharded, sharded.shards[from], from, to);
      for (std::size_t to = 0; to < devices; ++to) between_devices.add(sharded, sharded.shards[from], device, to);
    }
  between_processes.run();
  between_devices.run();
}

}  // namespace lockstep
