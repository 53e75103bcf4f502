// The exchanges between processes in a DataParallel pass (one forward call and its backward). With one process these
// functions exchange nothing.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <lockstep/distributed/world.h>
#include <lockstep/nn/module.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep {

namespace autograd {
struct ProcessShares;
}
class CallLog;

/// The kind of loss that each process computes from its rows. Gradients are those of one loss over all processes' rows.
enum class ProcessLoss : std::uint8_t {
  mean,  ///< A mean over the process's rows: backward() weights it by the process's share of all rows.
  sum,   ///< A part of a sum: gradients are added unweighted. (For a mean, divide the loss by batch_rows().)
};

namespace detail {

/// The rows and replicas of this process in one pass, and their places among those of all processes.
struct ProcessPass {
  std::int64_t rows = 0;       ///< Rows of this process.
  std::int64_t first_row = 0;  ///< This process's first row in the whole batch.
  std::int64_t all_rows = 0;
  std::size_t first_replica = 0;  ///< The number of this process's first replica: the rank of its first device.
  std::size_t all_replicas = 0;   ///< The number of replicas that have rows, in all processes.
  /// The rows of each shard except the last, if the shards of all processes are those that one process with all their
  /// devices would make; else 0.
  std::int64_t length = 0;
  /// The weight of each process's loss: by its rows, and by its replicas. Null for a single process.
  std::shared_ptr<const autograd::ProcessShares> by_rows = {}, by_replicas = {};
};

/// Exchanges the number of rows of each process. Throws CollectiveError. If the call logs of the processes differ,
/// throws an InvalidArgument that names the first different call, in all processes.
LOCKSTEP_API ProcessPass process_pass(const World& world, CallLog& calls, std::int64_t rows, std::size_t devices,
                                      const ScatterOptions& options);
/// Call this in the handler of an exception. Makes the other processes fail too, since they would wait for this
/// process. Does nothing if all processes threw the exception (World::was_thrown_on_all).
LOCKSTEP_API void fail_processes(const World& world) noexcept;

/// Called before there are replicas: throws InvalidArgument, in every process, naming the first parameter, buffer or
/// option that differs between processes; then broadcasts process 0's values.
LOCKSTEP_API void check_and_broadcast_model(const World& world, nn::ModuleBase& module, Device device,
                                            const std::string& options);

/// Marks x as it enters or leaves the model, so that backward knows the pass of its loss and the loss's weight.
LOCKSTEP_API Tensor mark_pass_boundary(const Tensor& x, std::shared_ptr<const autograd::ProcessShares> shares);
/// Makes ProcessShares (the weights of the processes' losses) for tensors that enter the model, before the processes
/// have exchanged their numbers of rows. set_shares() fills in the weights, by rows.
LOCKSTEP_API std::shared_ptr<autograd::ProcessShares> make_pending_shares();
LOCKSTEP_API void set_shares(autograd::ProcessShares& shares, const ProcessPass& pass);  ///< See make_pending_shares().

/// For each tensor of a replica's output, in order: true if it is weighted by rows. A 0-dim tensor that becomes an
/// element of a vector is weighted by replicas, unless `stay_0_dim` is true or the tensor is a part of a WeightedMean.
template <class T>
std::vector<bool> counting_rows(T& output, bool stay_0_dim) {
  std::vector<bool> counts;
  for_each_tensor(output, MemberPath("output"), [&]<class Part>(const MemberPath&, Part& tensor) {
    counts.push_back(stay_0_dim || tensor.dim() > 0 || std::same_as<Part, Addend>);
  });
  return counts;
}

/// Marks each tensor of a gathered output as a boundary of the pass.
template <class T>
void mark_outputs(T& output, const ProcessPass& pass, const std::vector<bool>& counts_rows) {
  std::size_t k = 0;
  for_each_tensor(output, MemberPath("output"), [&](const MemberPath&, Tensor& tensor) {
    tensor = mark_pass_boundary(tensor, counts_rows[k++] ? pass.by_rows : pass.by_replicas);
  });
}

}  // namespace detail
}  // namespace lockstep
