// What a DataParallel whose model is spread over several processes does in each of them. Nothing, for a process alone.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <lockstep/nn/module.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/runtime/world.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep {

namespace autograd {
struct ProcessShares;
}
class CallLog;

/// What the loss is that a process computes of its rows. Gradients are those of one loss over the rows of all.
enum class ProcessLoss : std::uint8_t {
  mean,  ///< A mean over the process's rows: backward() counts it by their share of all rows.
  sum,   ///< A part of a sum: gradients are added as they are. (Divide by batch_rows(), and they are of the mean.)
};

namespace detail {

/// Where a process's part of a pass lies among those of all.
struct ProcessPass {
  std::int64_t rows = 0;       ///< This process's.
  std::int64_t first_row = 0;  ///< Of this process, in the whole batch.
  std::int64_t all_rows = 0;
  std::size_t first_replica = 0;  ///< Of this process, among those of all: the rank of its first device.
  std::size_t all_replicas = 0;   ///< That have rows.
  std::int64_t length = 0;  ///< Rows of each shard but the last, if one process would divide the batch so; else 0.
  /// By how much each process's loss counts: by its rows, and by its replicas. Null for a process alone.
  std::shared_ptr<const autograd::ProcessShares> by_rows = {}, by_replicas = {};
};

/// Each process says how many rows it has. Throws CollectiveError; and InvalidArgument in all processes, naming what
/// they have done differently to the model, by its log of calls.
LOCKSTEP_API ProcessPass process_pass(const World& world, CallLog& calls, std::int64_t rows, std::size_t devices,
                                      const ScatterOptions& options);
/// The others end too: they would wait for this process, of which something failed. Called where the exception is
/// handled; does nothing if all processes threw it (World::all_threw).
LOCKSTEP_API void fail_processes(const World& world) noexcept;

/// Before there are replicas: throws InvalidArgument, in every process, naming the first parameter, buffer or option
/// that differs between processes; then all have process 0's values.
LOCKSTEP_API void begin_as_first(const World& world, nn::ModuleBase& module, Device device, const std::string& options);

/// x as it enters or leaves the model, by which backward knows the pass that its loss goes through, and how it counts.
LOCKSTEP_API Tensor cross_boundary(const Tensor& x, std::shared_ptr<const autograd::ProcessShares> shares);
/// Shares for tensors that enter before the pass is known; come() fills them in: such a tensor counts its rows.
LOCKSTEP_API std::shared_ptr<autograd::ProcessShares> shares_to_come();
LOCKSTEP_API void come(autograd::ProcessShares& shares, const ProcessPass& pass);  ///< See shares_to_come().

/// Which tensors of a replica's output count rows, in order. One that is 0-dim and becomes an element of a vector
/// counts one for each replica; if `stay_0_dim`, or as a part of a WeightedMean, it counts its rows, as every other one
/// does.
template <class T>
std::vector<bool> counting_rows(T& output, bool stay_0_dim) {
  std::vector<bool> counts;
  for_each_tensor(output, MemberPath("output"), [&]<class Part>(const MemberPath&, Part& tensor) {
    counts.push_back(stay_0_dim || tensor.dim() > 0 || std::same_as<Part, Addend>);
  });
  return counts;
}

/// Puts a boundary behind each tensor of a gathered output.
template <class T>
void leave(T& output, const ProcessPass& pass, const std::vector<bool>& counts_rows) {
  std::size_t k = 0;
  for_each_tensor(output, MemberPath("output"), [&](const MemberPath&, Tensor& tensor) {
    tensor = cross_boundary(tensor, counts_rows[k++] ? pass.by_rows : pass.by_replicas);
  });
}

}  // namespace detail
}  // namespace lockstep
