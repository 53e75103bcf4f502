// The replicas of a parameter, for optimizers and clipping: the primary first; the parameter alone where there is no
// other device. What optim does to a parameter or its gradient it does in each replica, to the replica's shard.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/meta.h"
#include "autograd/replicated_parameter.h"

namespace lockstep::optim {

using autograd::Shard;

inline std::size_t replica_count(const Tensor& parameter) noexcept {
  const autograd::Replica* const own = autograd::replica_of(parameter);
  return own ? own->parameter->replicas().size() : 1;
}

inline const Tensor& replica(const Tensor& parameter, std::size_t k) noexcept {
  return k == 0 ? parameter : autograd::replica_of(parameter)->parameter->replicas()[k].tensor;
}

/// Whether each replica updates only its shard.
inline bool is_sharded(const Tensor& parameter) noexcept {
  const autograd::Replica* const own = autograd::replica_of(parameter);
  return own && own->parameter->is_sharded();
}

/// What a replica updates, and keeps state of: all elements, unless the parameter is sharded.
inline Shard shard_of(const Tensor& replica) noexcept {
  return is_sharded(replica) ? autograd::replica_of(replica)->shard : Shard{0, replica.impl()->numel};
}

/// How a parameter is divided between the devices of several processes; null if it is not.
inline std::shared_ptr<const autograd::Division> division_of(const Tensor& parameter) noexcept {
  const autograd::Replica* const own = autograd::replica_of(parameter);
  return own ? own->parameter->division() : nullptr;
}

/// Of each model whose parameters are divided between several processes, one parameter: the first.
std::vector<autograd::ReplicatedParameter*> divided_models(std::span<const Tensor> parameters);

/// The logs of the models of several processes that the parameters are of, each once.
std::vector<std::shared_ptr<CallLog>> call_logs(std::span<const Tensor> parameters);

/// Notes a call there: call() gives its text, and is not called where no model has several processes.
void note_call(std::span<const Tensor> parameters, const std::function<std::string()>& call);

/// Those elements of a contiguous tensor, flat.
inline Tensor part(const Tensor& tensor, Shard shard) {
  return make_view(tensor, {shard.size()}, {1}, tensor.impl()->offset + shard.begin);
}

/// What of `tensor`, which is like the replica, is in the replica's shard: the tensor itself if nothing is sharded.
inline Tensor in_shard(const Tensor& tensor, const Tensor& replica) {
  return is_sharded(replica) ? part(tensor, shard_of(replica)) : tensor;
}

/// Null if there is none.
inline const Tensor* gradient_of(const Tensor& tensor) noexcept {
  const autograd::Meta* meta = autograd::meta_of(tensor);
  return meta && meta->grad.defined() ? &meta->grad : nullptr;
}

/// Throws InvalidArgument naming `op` and the first that is undefined.
void check_defined(const char* op, std::span<const Tensor> parameters);

/// Adds those of all replicas, each once.
void add_devices(std::vector<Device>& devices, std::span<const Tensor> parameters);

/// To be called before all replicas are used: gradients and values are the same there, or each replica's shard is.
/// Throws AutogradError during a backward of their model.
void reconcile(std::span<const Tensor> parameters);

/// After each replica of these parameters was changed in its shard: makes all of them whole. Ignores those that are not
/// sharded.
void all_gather(std::span<const Tensor> parameters);

/// The gradient in replica k, contiguous. Throws AutogradError naming the parameter if it is not there, or is not one
/// of that tensor.
Tensor gradient_in(const char* op, std::size_t index, const Tensor& parameter, std::size_t k);

/// All gradients, reconciled, of every replica that replica's shard, contiguous, to be changed. One that was not
/// contiguous is replaced.
std::vector<Tensor> gradients_everywhere(const char* op, std::span<const Tensor> parameters);

/// Tensors of one device and dtype.
struct TensorGroup {
  DeviceState* device;
  DType dtype;
  std::vector<const TensorImpl*> tensors;
  std::vector<std::size_t> positions;  ///< Of the tensors in the list they come from.
};
/// In order of first appearance.
std::vector<TensorGroup> by_device_and_dtype(std::span<const Tensor> tensors);

}  // namespace lockstep::optim
