#include "backends/cuda/fused_plans.h"

#include <utility>

#include <lockstep/core/error.h>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/relayout.h"

namespace lockstep::gpu {
namespace {

constexpr std::size_t kMaxEntries = 4096;
constexpr std::size_t kApart = 256;  // alignment in bytes of the parts of a workspace

std::size_t rounded(std::size_t bytes) { return (bytes + kApart - 1) / kApart * kApart; }

// Offsets in the workspace: by role, of the copy of each tensor that is not in_place; and of cuDNN's own workspace.
struct Places {
  std::array<std::size_t, 3> tensors = {};
  std::size_t cudnn = 0;
};

Places places_of(const Convolution& convolution) {
  Places places;
  for (std::size_t role = 0; role < 3; ++role) {
    places.tensors[role] = places.cudnn;
    const ConvolutionTensor& tensor = convolution.tensors[role];
    if (!tensor.in_place)
      places.cudnn += rounded(std::size_t(tensor.sizes.elements()) * std::size_t(size_of(convolution.dtype)));
  }
  return places;
}

[[noreturn]] void refuse() {
  throw InvalidArgument(
      "[fused] expected an operation that workspace_size() has accepted, got one that the device does not support");
}

bool is_supported(cudnnStatus_t result) {
  return result < CUDNN_STATUS_NOT_SUPPORTED || int(result) >= 4000;  // codes 3000 to 3999 are "not supported"
}

}  // namespace

// Creates cuDNN's handle at the first call. Returns false if cuDNN cannot be loaded or does not support this card.
// Throws if cuDNN fails.
bool FusedPlans::is_ready() {
  if (std::exchange(asked_, true)) return handle_ != nullptr;
  try {
    cudnn();
  } catch (const BackendError&) {
    return false;
  }
  const std::scoped_lock issue_lock(issue_mutex_);
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t result = cudnn().cudnnCreate(&handle);
  if (!is_supported(result)) return false;
  asked_ = result == CUDNN_STATUS_SUCCESS;
  check(result, "cudnnCreate", device_);
  handle_.reset(handle);
  return true;
}

// Tries the layout of the images first, then the other layout.
FusedPlans::Entry FusedPlans::make(const Convolution& convolution, const FusedOp& op) {
  const std::scoped_lock issue_lock(issue_mutex_);  // also for destroying a plan, which may unload kernels
  if (entries_.size() >= kMaxEntries) entries_.clear();
  for (const bool channels_last : {convolution.channels_last, !convolution.channels_last}) {
    const Convolution there = in_layout(convolution, op, channels_last);
    std::optional<CudnnGraph> graph = make_convolution_graph(there, handle_.get(), device_);
    if (!graph) continue;
    std::optional<CudnnPlan> plan =
        find_plan(*std::move(graph), {.handle = handle_.get()}, {.dtype = there.dtype, .tf32 = tf32_}, device_);
    if (plan) return {.channels_last = channels_last, .plan = std::move(plan)};
  }
  return {};
}

FusedPlans::Entry& FusedPlans::entry_of(const Convolution& convolution, const FusedOp& op) {
  std::vector<std::int64_t> key = convolution.key();
  if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
  Entry made = make(convolution, op);
  return entries_.emplace(std::move(key), std::move(made)).first->second;
}

std::optional<std::size_t> FusedPlans::workspace_size(const FusedOp& op) {
  if (is_attention(op)) return attention_workspace_size(op, capability_);
  const std::optional<Convolution> convolution = describe_convolution(op);
  if (!convolution) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  if (!is_ready()) return std::nullopt;
  const Entry& entry = entry_of(*convolution, op);
  if (!entry.plan) return std::nullopt;
  return places_of(in_layout(*convolution, op, entry.channels_last)).cudnn + std::size_t(entry.plan->workspace_bytes);
}

void FusedPlans::run(const FusedOp& op, void* workspace, cudaStream_t stream, KernelLoader& loader) {
  if (is_attention(op)) {
    if (!attention_workspace_size(op, capability_)) refuse();
    return check(run_attention(op, workspace, stream, loader), "cudaLaunchKernelEx", device_);
  }
  const std::optional<Convolution> asked = describe_convolution(op);
  const std::scoped_lock lock(mutex_);
  if (!asked || !is_ready()) refuse();
  Entry& entry = entry_of(*asked, op);
  if (!entry.plan) refuse();
  const Convolution convolution = in_layout(*asked, op, entry.channels_last);

  const Places places = places_of(convolution);
  const auto at = [workspace](std::size_t place) -> void* { return static_cast<std::byte*>(workspace) + place; };
  const std::size_t written = std::size_t(convolution.written());
  std::array<void*, 3> data;
  for (std::size_t role = 0; role < 3; ++role) {
    const ConvolutionTensor& tensor = convolution.tensors[role];
    void* const given = op.operands[std::size_t(tensor.operand)].data;
    data[role] = tensor.in_place ? given : at(places.tensors[role]);
    if (tensor.in_place || role == written) continue;
    const Relayout in{.from = given,
                      .to = data[role],
                      .sizes = tensor.sizes,
                      .from_strides = tensor.strides,
                      .to_strides = convolution.dense_strides(Role(role))};
    check(relayout(in, convolution.dtype, stream, loader), "cudaLaunchKernelEx", device_);
  }
  execute(entry, data, at(places.cudnn), stream);

  const ConvolutionTensor& result = convolution.tensors[written];
  if (result.in_place && convolution.bias < 0) return;
  const Shape dense = convolution.dense_strides(convolution.written());
  Relayout out{.from = data[written],
               .to = op.operands[std::size_t(result.operand)].data,
               .sizes = result.sizes,
               .from_strides = dense,
               .to_strides = result.in_place ? dense : result.strides};
  if (convolution.bias >= 0) {
    const FusedOperand& bias = op.operands[std::size_t(convolution.bias)];
    out.bias = bias.data;
    out.bias_stride = bias.strides[0];
  }
  check(relayout(out, convolution.dtype, stream, loader), "cudaLaunchKernelEx", device_);
}

void FusedPlans::execute(Entry& entry, const std::array<void*, 3>& data, void* workspace, cudaStream_t stream) {
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, device_);
  constexpr std::array<std::int64_t, 3> kNames{1, 2, 3};  // the ids of the tensors: role + 1
  pack.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kNames);
  pack.set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  if (!pack.finalize()) refuse();
  std::unique_lock issue_lock(issue_mutex_, std::defer_lock);
  if (!entry.has_run) issue_lock.lock();  // the first run may load the engine's kernels
  check(cudnn().cudnnSetStream(handle_.get(), stream), "cudnnSetStream", device_);
  check(cudnn().cudnnBackendExecute(handle_.get(), entry.plan->plan.get(), pack.get()), "cudnnBackendExecute", device_);
  entry.has_run = true;
}

}  // namespace lockstep::gpu
