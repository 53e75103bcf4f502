#include <lockstep/parallel/comm_hook.h>

#include <cstddef>

#include <lockstep/parallel/collectives.h>

namespace lockstep {

std::vector<Tensor> ReducingBucket::each_buffer(const std::function<Tensor(const Tensor&)>& f) const {
  std::vector<Tensor> results;
  for (std::size_t d = 0; d < buffers_.size(); ++d) {
    const StreamGuard on(streams_[d]);
    results.push_back(f(buffers_[d]));
  }
  return results;
}

void ReducingBucket::set(std::span<const Tensor> values) const {
  std::size_t d = 0;
  each_buffer([&](const Tensor& buffer) {
    Tensor target = buffer;
    return target.copy_(values[d++]);
  });
}

void ReducingBucket::all_reduce(std::span<const Tensor> tensors) const {
  collective::all_reduce(communicator_, tensors, ReduceOp::sum, streams_);
}

void bfloat16_compress_hook(ReducingBucket& bucket) {
  const DType dtype = bucket.buffers()[0].dtype();
  if (dtype != kFloat32 && dtype != kFloat64) return bucket.all_reduce(bucket.buffers());
  const std::vector<Tensor> rounded =
      bucket.each_buffer([](const Tensor& gradients) { return gradients.to(kBFloat16); });
  bucket.all_reduce(rounded);
  bucket.set(rounded);
}

}  // namespace lockstep
