// The replicas of a parameter, for optimizers and clipping. The primary comes first; on a single device the parameter
// itself is the only replica. Functions that change gradients or values do so in every replica, but only in the shard
// of each.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/kernels/multi_map.h>
#include <lockstep/kernels/visit.h>

#include "autograd/meta.h"
#include "autograd/replicated_parameter.h"

namespace lockstep::optim {

using autograd::ShardRange;

inline std::size_t replica_count(const Tensor& parameter) noexcept {
  const autograd::Replica* const own = autograd::replica_of(parameter);
  return own ? own->parameter->replicas().size() : 1;
}

inline const Tensor& replica(const Tensor& parameter, std::size_t k) noexcept {
  return k == 0 ? parameter : autograd::replica_of(parameter)->parameter->replicas()[k].tensor;
}

/// True if each replica updates only its shard.
inline bool is_sharded(const Tensor& parameter) noexcept {
  const autograd::Replica* const own = autograd::replica_of(parameter);
  return own && own->parameter->is_sharded();
}

/// The elements that a replica updates and keeps state for. These are all elements, unless the parameter is sharded.
inline ShardRange shard_of(const Tensor& replica) noexcept {
  return is_sharded(replica) ? autograd::replica_of(replica)->shard : ShardRange{0, replica.impl()->numel};
}

/// How a parameter is sharded over the devices of several processes; null if it is not sharded over processes.
inline std::shared_ptr<const autograd::ShardLayout> shard_layout_of(const Tensor& parameter) noexcept {
  const autograd::Replica* const own = autograd::replica_of(parameter);
  return own ? own->parameter->shard_layout() : nullptr;
}

/// The first parameter of each model whose parameters are sharded over several processes.
std::vector<autograd::ReplicatedParameter*> divided_models(std::span<const Tensor> parameters);

/// The call logs of the models to which the parameters belong, each log once. Only models of several processes have a
/// log.
std::vector<std::shared_ptr<CallLog>> call_logs(std::span<const Tensor> parameters);

/// Adds a call to the logs of call_logs(parameters). call() returns its text, and runs only if there is a log.
void note_call(std::span<const Tensor> parameters, const std::function<std::string()>& call);

/// A flat view of elements `shard` of a contiguous tensor.
inline Tensor part(const Tensor& tensor, ShardRange shard) {
  return make_view(tensor, {shard.size()}, {1}, tensor.impl()->offset + shard.begin);
}

/// The replica's shard of `tensor`, which has the replica's layout. The tensor itself if the replica is not sharded.
inline Tensor in_shard(const Tensor& tensor, const Tensor& replica) {
  if (!is_sharded(replica)) return tensor;
  if (const auto& memory = tensor.impl()->storage->transient)
    if (Tensor own = memory->own_part(*tensor.impl()); own.defined()) return own;
  return part(tensor, autograd::replica_of(replica)->shard);
}

/// The gradient of a tensor; null if it has none.
inline const Tensor* gradient_of(const Tensor& tensor) noexcept {
  const autograd::Meta* meta = autograd::meta_of(tensor);
  return meta && meta->grad.defined() ? &meta->grad : nullptr;
}

/// Throws InvalidArgument naming `op` and the first undefined parameter.
void check_defined(const char* op, std::span<const Tensor> parameters);

/// Adds to `devices` the devices of all replicas, each once.
void add_devices(std::vector<Device>& devices, std::span<const Tensor> parameters);

/// Call this before code that uses all replicas: it makes gradients and values equal in all replicas, or, if they are
/// sharded, correct in each replica's shard. Throws AutogradError during a backward of their model.
void reconcile(std::span<const Tensor> parameters);

/// While it lives, the replicas of these parameters are changed, each in its shard if the parameter is sharded. If it
/// ends before all_gather(), the other processes fail too: only they would have changed their replicas.
class ShardUpdate {
 public:
  explicit ShardUpdate(std::span<const Tensor> parameters);
  ~ShardUpdate();
  ShardUpdate(const ShardUpdate&) = delete;
  ShardUpdate& operator=(const ShardUpdate&) = delete;
  /// Sends the changed shards to the other replicas.
  void all_gather();

 private:
  std::vector<std::vector<autograd::ReplicatedParameter*>> models_;  // one all-gather for each model
};

/// The gradient in replica k, contiguous. Throws AutogradError naming the parameter if there is no gradient, or if its
/// shape, dtype or device is not the replica's.
Tensor gradient_in(const char* op, std::size_t index, const Tensor& parameter, std::size_t k);

/// Reconciles all gradients, and returns, for every replica, the contiguous gradient of its shard, which may be changed
/// in place. A gradient that is not contiguous is replaced by a contiguous copy.
std::vector<Tensor> gradients_of_all_replicas(const char* op, std::span<const Tensor> parameters);

/// Tensors on one device, of one dtype.
struct TensorGroup {
  DeviceState* device;
  DType dtype;
  std::vector<const TensorImpl*> tensors;
  std::vector<std::size_t> positions;  ///< Indices of the tensors in the list.
};
/// Groups tensors by device and dtype, in order of first appearance.
std::vector<TensorGroup> by_device_and_dtype(std::span<const Tensor> tensors);

/// Calls f(element) for each element of the group's tensors, which are contiguous, in one launch. `memory`: the memory
/// that f.bind() reads on the device, or null.
template <class F>
void change_elements(const char* name, double flops, const F& f, const TensorGroup& group,
                     const TensorImpl* memory = nullptr) {
  std::vector<MultiRow<1>> rows;
  for (const TensorImpl* tensor : group.tensors) {
    rows.push_back({tensor});
    bump_version(*tensor);
  }
  visit_floating(name, group.dtype, [&]<class T>() {
    multi_map<T>(name, flops, f, *group.device, std::span<const MultiRow<1>>(rows), std::span(&memory, memory ? 1 : 0));
  });
}

struct MultiplyBy {
  double factor;
  template <class T>
  LOCKSTEP_HD void operator()(T& x) const {
    x *= T(factor);
  }
};

}  // namespace lockstep::optim
