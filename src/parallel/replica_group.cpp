#include <lockstep/parallel/replica_group.h>

#include <numeric>

#include <lockstep/autograd/grad_mode.h>

#include "autograd/record.h"
#include "core/context.h"
#include "core/text.h"
#include "parallel/replica_barrier.h"
#include "parallel/replica_group_impl.h"
#include "tensor/copy.h"

namespace lockstep {

namespace {

// What a device without a replica adds to a sum: -0, since -0 + 0 would be 0.
Tensor nothing(Device device, const Tensor& like) {
  Tensor tensor = make_tensor(device_state(device), like.sizes(), like.dtype());
  fill_values(tensor, -0.0);
  return tensor;
}

}  // namespace

void ReplicaGroup::Impl::all_reduce(std::span<const Tensor> tensors, std::span<const Stream> streams, ReduceOp op) {
  const std::scoped_lock lock(mutex);
  if (!communicator) communicator.emplace(devices, world);
  std::vector<Tensor> of_all(tensors.begin(), tensors.end());
  std::vector<Stream> on(streams.begin(), streams.end());
  for (std::size_t i = tensors.size(); i < devices.size(); ++i) {
    of_all.push_back(nothing(devices[i], tensors[0]));
    on.push_back(current_stream(devices[i]));
  }
  collective::all_reduce(*communicator, of_all, op, on);
}

void ReplicaGroup::Impl::sum(std::span<const Tensor> tensors, std::span<const Stream> streams) {
  all_reduce(tensors, streams, ReduceOp::sum);
}

void ReplicaGroup::Impl::mean(std::span<const Tensor> tensors, std::span<const Stream> streams, std::size_t all) {
  if (all == devices.size() * std::size_t(world.size())) return all_reduce(tensors, streams, ReduceOp::mean);
  // As a mean over all is computed: the sums of 16-bit floats are divided before they are rounded.
  const NoGrad guard;
  const DType dtype = tensors[0].dtype() == kFloat64 ? kFloat64 : kFloat32;
  std::vector<Tensor> sums;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StreamGuard on_own(streams[i]);
    sums.push_back(tensors[i].dtype() == dtype ? tensors[i] : copied(tensors[i], device_state(devices[i]), dtype));
  }
  all_reduce(sums, streams, ReduceOp::sum);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StreamGuard on_own(streams[i]);
    sums[i].div_(double(all));
    if (!sums[i].is_same(tensors[i])) copy_values(tensors[i], sums[i]);
  }
}

ReplicaGroup::ReplicaGroup(std::span<const Device> devices, const World& world) : impl_(std::make_unique<Impl>()) {
  impl_->devices.assign(devices.begin(), devices.end());
  impl_->world = world;
}
ReplicaGroup::~ReplicaGroup() = default;
bool ReplicaGroup::has_other_processes() const noexcept { return impl_->world.size() > 1; }

namespace {

constexpr const char* kOp = "sum_over_replicas";

// The sum of all parts, for each of them. One node for all replicas: nobody waits for another replica in backward.
std::vector<Tensor> sums_of(const std::shared_ptr<ReplicaGroup>& group, std::span<const Tensor> parts,
                            std::span<const Stream> streams) {
  std::vector<Tensor> sums;
  bool recording = false;
  {
    const NoGrad guard;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const StreamGuard on(streams[i]);
      sums.push_back(copied(parts[i], *parts[i].impl()->storage->device, parts[i].dtype()));
    }
  }
  group->impl().sum(sums, streams);
  for (const Tensor& part : parts) recording = recording || autograd::records(part);
  if (!recording) return sums;
  const StreamGuard on(streams[0]);
  autograd::record_many("SumOverReplicas", sums, parts,
                        [group, sizes = parts[0].sizes()](const autograd::Gradients& arrived) {
                          autograd::Gradients gradients = arrived;
                          DType dtype = kFloat32;
                          for (const Tensor& g : arrived)
                            if (g.defined()) dtype = g.dtype();
                          std::vector<Stream> current;
                          for (std::size_t i = 0; i < gradients.size(); ++i) {
                            const Device device = group->impl().devices[i];
                            current.push_back(current_stream(device));
                            if (gradients[i].defined()) continue;
                            gradients[i] = make_tensor(device_state(device), sizes, dtype);
                            fill_values(gradients[i], 0);
                          }
                          return sums_of(group, gradients, current);
                        });
  return sums;
}

void check_alike(std::span<Contribution* const> all) {
  const Tensor& first = all[0]->tensor;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Tensor& other = all[i]->tensor;
    if (other.defined() != first.defined())
      throw InvalidArgument(
          text("[", kOp, "] expected a tensor from every replica or a number from every one, got both"));
    if (!first.defined()) continue;
    if (other.sizes() != first.sizes())
      throw ShapeError(text("[", kOp, "] expected shape ", first.sizes(), " as in replica 0, got ", other.sizes(),
                            " in replica ", i));
    if (other.dtype() != first.dtype())
      throw DTypeError(
          text("[", kOp, "] expected ", first.dtype(), " as in replica 0, got ", other.dtype(), " in replica ", i));
  }
}

void add_up(const std::shared_ptr<ReplicaGroup>& group, std::span<Contribution* const> all) {
  check_alike(all);
  std::vector<Tensor> parts;
  std::vector<Stream> streams;
  std::int64_t number = 0;
  for (Contribution* const each : all) {
    number += each->number;
    if (!each->tensor.defined()) continue;
    parts.push_back(each->tensor);
    streams.push_back(*each->stream);
  }
  const bool numbers = !all[0]->tensor.defined();
  if (numbers && group->has_other_processes()) {
    const std::vector<std::int64_t> of_each = group->impl().world.all_gather(number, kOp);
    number = std::reduce(of_each.begin(), of_each.end());
  }
  for (Contribution* const each : all) each->number = number;
  if (parts.empty()) return;
  const std::vector<Tensor> sums = sums_of(group, parts, streams);
  for (std::size_t i = 0; i < sums.size(); ++i) all[i]->tensor = sums[i];
}

Contribution summed(Contribution mine) {
  if (context().checkpointed != CheckpointedRun::none)
    throw InvalidArgument(text("[", kOp,
                               "] expected to be called outside of checkpoint(), got a call from inside one: "
                               "the other replicas would not take part in its second run"));
  ReplicaBarrier& barrier = *context().barrier;
  barrier.arrive_and_wait(kOp, context().replica, mine,
                          [&](std::span<Contribution* const> all) { add_up(barrier.group(), all); });
  return mine;
}

}  // namespace

Tensor sum_over_replicas(const Tensor& x) {
  impl_of(kOp, x);
  if (!context().barrier) return x;
  return summed({.tensor = x, .stream = current_stream(x.device())}).tensor;
}

std::int64_t sum_over_replicas(std::int64_t x) {
  if (!context().barrier) return x;
  return summed({.number = x}).number;
}

}  // namespace lockstep
