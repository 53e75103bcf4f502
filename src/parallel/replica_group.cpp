#include <lockstep/parallel/replica_group.h>

#include <lockstep/autograd/grad_mode.h>

#include "autograd/record.h"
#include "autograd/several_processes.h"
#include "core/context.h"
#include "core/text.h"
#include "distributed/same_lines.h"
#include "parallel/replica_barrier.h"
#include "parallel/replica_group_impl.h"
#include "tensor/copy.h"

namespace lockstep {

void fill_sum_identity(const Tensor& tensor) { fill_values(tensor, -0.0); }

void ReplicaGroup::Impl::all_reduce(std::span<const Tensor> tensors, std::span<const Stream> streams, ReduceOp op) {
  const std::scoped_lock lock(mutex);
  if (!communicator) communicator.emplace(devices, world);
  std::vector<Tensor> of_all(tensors.begin(), tensors.end());
  std::vector<Stream> on(streams.begin(), streams.end());
  for (std::size_t i = tensors.size(); i < devices.size(); ++i) {
    of_all.push_back(make_tensor(device_state(devices[i]), tensors[0].sizes(), tensors[0].dtype()));
    fill_sum_identity(of_all.back());
    on.push_back(current_stream(devices[i]));
  }
  collective::all_reduce(*communicator, of_all, op, on);
}

void ReplicaGroup::Impl::sum(std::span<const Tensor> tensors, std::span<const Stream> streams) {
  all_reduce(tensors, streams, ReduceOp::sum);
}

void ReplicaGroup::Impl::mean(std::span<const Tensor> tensors, std::span<const Stream> streams, std::size_t all) {
  if (all == devices.size() * std::size_t(world.size())) return all_reduce(tensors, streams, ReduceOp::mean);
  // As ReduceOp::mean does, divides a sum of 16-bit floats before it is rounded: so copies these to float32 first.
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

void ReplicaGroup::Impl::broadcast(const Tensor& tensor, std::size_t process) {
  const std::scoped_lock lock(mutex);
  if (!first_devices) first_devices.emplace(std::vector<Device>{devices[0]}, world);
  collective::broadcast(*first_devices, std::span(&tensor, 1), int(process));
}

ReplicaGroup::ReplicaGroup(std::span<const Device> devices, const World& world) : impl_(std::make_unique<Impl>()) {
  impl_->devices.assign(devices.begin(), devices.end());
  impl_->world = world;
}
ReplicaGroup::~ReplicaGroup() = default;
bool ReplicaGroup::has_other_processes() const noexcept { return impl_->world.size() > 1; }
bool ReplicaGroup::has_one_replica() const noexcept { return impl_->devices.size() == 1 && !has_other_processes(); }

namespace {

using autograd::Gradients;

constexpr const char *kOp = "sum_over_replicas", *kNode = "SumOverReplicas";

std::vector<Tensor> sums_of(const std::string& what, const std::shared_ptr<ReplicaGroup>& group,
                            std::span<const Tensor> parts, std::span<const Stream> streams);

// The backward of a sum: sums the gradients of all replicas. One node does this for all replicas, so that in backward
// no replica waits for another one.
Gradients sum_gradients(const std::string& what, const std::shared_ptr<ReplicaGroup>& group, const Shape& sizes,
                        const Gradients& arrived) {
  Gradients gradients = arrived;
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
  return sums_of(what, group, gradients, current);
}

// The node of a sum that includes other processes. Its backward waits for the other processes, so all processes must
// run the same sums in backward; agree() checks this.
class SumOverProcesses final : public autograd::CollectiveNode {
 public:
  SumOverProcesses(std::string what, std::shared_ptr<ReplicaGroup> group, const Shape& sizes,
                   std::span<const Tensor> parts)
      : CollectiveNode(kNode, group->impl().devices[0], autograd::gradient_edges(parts)),
        what_(std::move(what)),
        group_(std::move(group)),
        sizes_(sizes) {}

  Gradients backward(const Gradients& arrived) override { return sum_gradients(what_, group_, sizes_, arrived); }
  std::string what() const override { return text(what_, ' ', sizes_); }
  void agree(const std::vector<std::string>& all) const override;

 private:
  const std::string what_;
  const std::shared_ptr<ReplicaGroup> group_;
  const Shape sizes_;
};

void SumOverProcesses::agree(const std::vector<std::string>& all) const {
  const World& world = group_->impl().world;
  std::string mine;
  for (std::size_t i = 0; i < all.size(); ++i) mine += text("sum ", i + 1, ", ", all[i], '\n');
  world.agree(mine, "the sums over replicas of a backward", [&](const std::vector<std::string>& of_each) {
    expect_same_lines("[backward] expected the same sums over replicas in all processes", world, of_each);
  });
}

// Returns the sum of all parts once for each part, on that part's device.
std::vector<Tensor> sums_of(const std::string& what, const std::shared_ptr<ReplicaGroup>& group,
                            std::span<const Tensor> parts, std::span<const Stream> streams) {
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
  const Shape sizes = parts[0].sizes();
  if (!group->has_other_processes()) {
    autograd::record_many(kNode, sums, parts, [what, group, sizes](const Gradients& arrived) {
      return sum_gradients(what, group, sizes, arrived);
    });
    return sums;
  }
  autograd::attach(std::make_shared<SumOverProcesses>(what, group, sizes, parts), sums);
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

// The sum of `number` over all processes, which must name the same sum.
std::int64_t over_processes(const World& world, const std::string& what, std::int64_t number) {
  const auto told = [](const std::string& of_one) { return of_one.substr(of_one.find(' ') + 1); };
  const std::vector<std::string> of_each = world.agree(text(number, ' ', what), kOp, [&](std::vector<std::string> all) {
    for (std::string& each : all) each = told(each);
    expect_same_lines(text("[", kOp, "] expected the same sum in all processes"), world, all);
  });
  std::int64_t sum = 0;
  for (const std::string& each : of_each) sum += std::stoll(each);
  return sum;
}

void add_up(const std::string& what, const std::shared_ptr<ReplicaGroup>& group, std::span<Contribution* const> all) {
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
  if (numbers && group->has_other_processes()) number = over_processes(group->impl().world, what, number);
  for (Contribution* const each : all) each->number = number;
  if (parts.empty()) return;
  const std::vector<Tensor> sums = sums_of(what, group, parts, streams);
  for (std::size_t i = 0; i < sums.size(); ++i) all[i]->tensor = sums[i];
}

Contribution summed(const std::string& what, Contribution mine) {
  if (context().checkpoint != 0)
    throw InvalidArgument(text("[", kOp,
                               "] expected to be called outside of checkpoint(), got a call from inside one: "
                               "the other replicas would not take part when checkpoint() runs its function again"));
  ReplicaBarrier& barrier = *context().barrier;
  barrier.arrive_and_wait(kOp, context().replica, mine,
                          [&](std::span<Contribution* const> all) { add_up(what, barrier.group(), all); });
  return mine;
}

}  // namespace

Tensor sum_over_replicas(const Tensor& x, const std::string& what) {
  impl_of(kOp, x);
  if (!context().barrier) return x;
  return summed(what, {.tensor = x, .stream = current_stream(x.device())}).tensor;
}

std::int64_t sum_over_replicas(std::int64_t x, const std::string& what) {
  if (!context().barrier) return x;
  return summed(what, {.number = x}).number;
}

}  // namespace lockstep
