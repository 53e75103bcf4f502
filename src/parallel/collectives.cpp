#include <lockstep/parallel/collectives.h>

#include <vector>

#include "core/text.h"
#include "kernels/launch.h"

namespace lockstep::collective {
namespace {

// Checks the tensors of one call and converts them to a communicator's buffers.
class Call {
 public:
  Call(const char* name, const Communicator& communicator, std::span<const Stream> streams)
      : name_(name), devices_(communicator.devices()), first_rank_(std::size_t(communicator.first_rank().value())) {
    if (!streams.empty() && streams.size() != devices_.size())
      throw InvalidArgument(
          text('[', name, "] expected one stream for each of ", devices_.size(), " ranks, got ", streams.size()));
    for (std::size_t rank = 0; rank < devices_.size(); ++rank)
      buffers_.push_back({streams.empty() ? current_stream(devices_[rank]) : streams[rank]});
  }

  void check(const char* what, std::span<const Tensor> tensors) const {
    if (tensors.size() != devices_.size())
      throw InvalidArgument(
          text('[', name_, "] expected one ", what, " for each of ", devices_.size(), " ranks, got ", tensors.size()));
    for (std::size_t rank = 0; rank < tensors.size(); ++rank) {
      const TensorImpl& impl = impl_of(name_, tensors[rank]);
      if (tensors[rank].device() != devices_[rank])
        throw DeviceMismatch(text('[', name_, "] expected the ", what, " of rank ", rank, " on ", devices_[rank],
                                  ", got it on ", tensors[rank].device()));
      if (impl.dtype != tensors[0].dtype())
        throw DTypeError(text('[', name_, "] expected the ", what, " of rank ", rank, " to be ", tensors[0].dtype(),
                              " as that of rank 0, got ", impl.dtype));
      if (!impl.contiguous)
        throw InvalidArgument(text('[', name_, "] expected a contiguous ", what, " of rank ", rank, ", got strides ",
                                   impl.strides, " for sizes ", impl.sizes));
    }
  }

  void check_one_shape(const char* what, std::span<const Tensor> tensors) const {
    check(what, tensors);
    for (std::size_t rank = 1; rank < tensors.size(); ++rank)
      if (tensors[rank].sizes() != tensors[0].sizes())
        throw ShapeError(text('[', name_, "] expected the ", what, " of rank ", rank, " to have sizes ",
                              tensors[0].sizes(), " as that of rank 0, got ", tensors[rank].sizes()));
  }

  /// Throws if there are other processes: their shards' sizes are unknown here.
  void expect_one_process(const Communicator& communicator) const {
    if (std::size_t(communicator.size()) != devices_.size())
      throw InvalidArgument(text('[', name_, "] expected a communicator of one process, got ", communicator.size(),
                                 " ranks of several processes: use the Communicator's own function"));
  }

  bool is(std::size_t rank, int root) const { return first_rank_ + rank == std::size_t(root); }

  /// Checks one shard of each rank against the whole tensors that they add up to.
  void check_shards(std::span<const Tensor> shards, std::span<const Tensor> wholes) const {
    std::int64_t total = 0;
    for (const Tensor& shard : shards) total += shard.numel();
    for (std::size_t rank = 0; rank < wholes.size(); ++rank)
      if (wholes[rank].numel() != total)
        throw ShapeError(text('[', name_, "] expected ", total, " elements for the shards of all ranks, got sizes ",
                              wholes[rank].sizes(), " on rank ", rank));
    if (shards[0].dtype() != wholes[0].dtype())
      throw DTypeError(
          text('[', name_, "] expected outputs of ", shards[0].dtype(), " as the inputs, got ", wholes[0].dtype()));
  }

  void send(std::span<const Tensor> tensors) {
    for (std::size_t rank = 0; rank < tensors.size(); ++rank) buffers_[rank].send = used(rank, tensors[rank]);
  }
  void receive(std::span<const Tensor> tensors) {
    for (std::size_t rank = 0; rank < tensors.size(); ++rank) buffers_[rank].receive = used(rank, tensors[rank]);
  }

  ~Call() { has_enqueued(); }
  std::span<const RankBuffers> buffers() const { return buffers_; }

 private:
  void* used(std::size_t rank, const Tensor& tensor) const {
    wait_for_copies_from(*tensor.impl());
    void* const data = tensor.impl()->data();
    if (devices_[rank].is_cuda()) use_on(StreamAccess::handle(buffers_[rank].stream), tensor);
    return data;
  }

  const char* const name_;
  const std::vector<Device>& devices_;
  const std::size_t first_rank_;
  std::vector<RankBuffers> buffers_;
};

std::size_t count_of(const Tensor& tensor) { return std::size_t(tensor.numel()); }

std::vector<std::size_t> counts_of(std::span<const Tensor> tensors) {
  std::vector<std::size_t> counts;
  for (const Tensor& tensor : tensors) counts.push_back(count_of(tensor));
  return counts;
}

void changed(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) bump_version(tensor);
}

}  // namespace

void all_reduce(Communicator& communicator, std::span<const Tensor> tensors, ReduceOp op,
                std::span<const Stream> streams) {
  Call call("all_reduce", communicator, streams);
  call.check_one_shape("tensor", tensors);
  call.send(tensors);
  call.receive(tensors);
  communicator.all_reduce(call.buffers(), count_of(tensors[0]), tensors[0].dtype(), op);
  changed(tensors);
}

void reduce(Communicator& communicator, std::span<const Tensor> tensors, int root, ReduceOp op,
            std::span<const Stream> streams) {
  Call call("reduce", communicator, streams);
  call.check_one_shape("tensor", tensors);
  call.send(tensors);
  call.receive(tensors);
  communicator.reduce(call.buffers(), count_of(tensors[0]), tensors[0].dtype(), root, op);
  for (std::size_t rank = 0; rank < tensors.size(); ++rank)
    if (call.is(rank, root)) bump_version(tensors[rank]);
}

void broadcast(Communicator& communicator, std::span<const Tensor> tensors, int root, std::span<const Stream> streams) {
  Call call("broadcast", communicator, streams);
  call.check_one_shape("tensor", tensors);
  call.send(tensors);
  call.receive(tensors);
  communicator.broadcast(call.buffers(), count_of(tensors[0]), tensors[0].dtype(), root);
  for (std::size_t rank = 0; rank < tensors.size(); ++rank)
    if (!call.is(rank, root)) bump_version(tensors[rank]);
}

void reduce_scatter(Communicator& communicator, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                    ReduceOp op, std::span<const Stream> streams) {
  Call call("reduce_scatter", communicator, streams);
  call.expect_one_process(communicator);
  call.check_one_shape("input", inputs);
  call.check("output", outputs);
  call.check_shards(outputs, inputs);
  call.send(inputs);
  call.receive(outputs);
  communicator.reduce_scatter(call.buffers(), counts_of(outputs), inputs[0].dtype(), op);
  changed(outputs);
}

void all_gather(Communicator& communicator, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                std::span<const Stream> streams) {
  Call call("all_gather", communicator, streams);
  call.expect_one_process(communicator);
  call.check("input", inputs);
  call.check_one_shape("output", outputs);
  call.check_shards(inputs, outputs);
  call.send(inputs);
  call.receive(outputs);
  communicator.all_gather(call.buffers(), counts_of(inputs), inputs[0].dtype());
  changed(outputs);
}

}  // namespace lockstep::collective
