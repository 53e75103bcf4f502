// What a DataParallel whose model is spread over several processes does in each of them. Nothing, for a process alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <lockstep/nn/module.h>
#include <lockstep/parallel/scatter.h>
#include <lockstep/runtime/world.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep {

/// What the loss is that a process computes of its rows. Gradients are those of one loss over the rows of all.
enum class ProcessLoss : std::uint8_t {
  mean,  ///< A mean over the process's rows: it counts by their share of all, at the model's output.
  sum,   ///< A part of a sum: gradients are added as they are. (Divide by batch_rows(), and they are of the mean.)
};

namespace detail {

/// Where a process's part of a pass lies among those of all.
struct ProcessPass {
  std::int64_t rows = 0;       ///< This process's.
  std::int64_t first_row = 0;  ///< Of this process, in the whole batch.
  std::int64_t all_rows = 0;
  std::size_t replicas = 0;       ///< That have rows, of this process; where no batch was divided, all.
  std::size_t first_replica = 0;  ///< Of this process, among those of all: the rank of its first device.
  std::size_t all_replicas = 0;   ///< That have rows.
  std::int64_t length = 0;  ///< Rows of each shard but the last, if one process would divide the batch so; else 0.
};

/// Each process says how many rows it has. Throws CollectiveError.
LOCKSTEP_API ProcessPass process_pass(const World& world, std::int64_t rows, std::size_t devices,
                                      const ScatterOptions& options);
/// The others end too: they would wait for this process, of which something failed.
LOCKSTEP_API void fail_processes(const World& world) noexcept;

/// Before there are replicas: throws InvalidArgument, in every process, naming the first parameter, buffer or option
/// that differs between processes; then all have process 0's values.
LOCKSTEP_API void begin_as_first(const World& world, nn::ModuleBase& module, Device device, const std::string& options);

/// How much the gradients within a model count in one pass: by this process's share of the whole batch. They take it
/// on where they come in, at the outputs, and leave it behind where they go out, at the inputs. So the share counts
/// once where the model gets what it has made, and the gradient of an input is that of the process's own loss.
class LOCKSTEP_API GradientShare {
 public:
  Tensor input(const Tensor& x);
  /// Throws InvalidArgument where inputs need one share, and outputs have two.
  Tensor output(const Tensor& x, double share);

 private:
  std::shared_ptr<std::optional<double>> of_inputs_;  // null unless an input needs a gradient
};

/// The gradients of an output, gathered along `dim`, are counted by this process's share of the rows, or, where each
/// replica brought one number, of the replicas.
template <class T>
T weighted_by_process(T output, const ProcessPass& pass, std::int64_t dim, bool is_mean, GradientShare& weight) {
  for_each_tensor(output, Path("output"), [&](const Path&, Tensor& tensor) {
    const bool of_rows = pass.all_rows > 0 &&
                         (is_mean || pass.rows == 0 || (tensor.dim() > 0 && tensor.size(int(dim)) % pass.rows == 0));
    const double share =
        of_rows ? double(pass.rows) / double(pass.all_rows) : double(pass.replicas) / double(pass.all_replicas);
    tensor = weight.output(tensor, share);
  });
  return output;
}

}  // namespace detail
}  // namespace lockstep
