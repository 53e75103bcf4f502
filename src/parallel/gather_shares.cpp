#include "parallel/gather_shares.h"

#include "tensor/tensor_impl.h"

namespace lockstep {

void gather_shares(Communicator& communicator, std::span<const DividedTensor> tensors) {
  std::vector<Stream> streams;
  for (const Device& device : communicator.devices()) streams.push_back(current_stream(device));
  std::vector<Transfer> transfers;  // of bytes: dtypes may differ
  for (const DividedTensor& divided : tensors)
    for (std::size_t from = 0; from < divided.size(); ++from) {
      const auto& [tensor, share] = divided[from];
      tensor.record_stream(streams[from]);
      const std::size_t element = size_of(tensor.dtype()), offset = std::size_t(share.begin) * element;
      for (std::size_t to = 0; to < divided.size() && share.begin < share.end; ++to)
        if (to != from)
          transfers.push_back({int(from), int(to), tensor.impl()->data() + offset,
                               divided[to].tensor.impl()->data() + offset,
                               std::size_t(share.end - share.begin) * element});
    }
  if (!transfers.empty()) communicator.send_receive(streams, transfers, kUInt8);
}

}  // namespace lockstep
