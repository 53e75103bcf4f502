// Chooses cuDNN's engine for an operation graph. The engine gives the same bits each time, and computes in the
// requested precision. Not thread-safe.
#pragma once

#include <optional>

#include <lockstep/core/dtype.h>

#include "backends/cuda/cudnn/descriptor.h"

namespace lockstep::gpu {

/// The target for which engines are chosen and compiled: the current card of a handle, or a card that is only described
/// and need not be present (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR).
struct EngineTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

struct EngineRules {
  DType dtype = kFloat32;
  bool tf32 = false;  ///< float32 factors may be rounded to TF32.
};

/// An operation graph of finalized operations. `parts` are the descriptors that the graph consists of, in order of
/// creation.
struct CudnnGraph {
  std::vector<CudnnDescriptor> parts;
  CudnnDescriptor graph;
};

/// An executable plan. It keeps alive the descriptors that it consists of.
struct CudnnPlan {
  CudnnGraph graph;
  CudnnDescriptor configuration;
  CudnnDescriptor plan;
  std::int64_t workspace_bytes = 0;
};

/// Finalizes a graph of one operation, the last of the parts; returns nullopt if cuDNN does not support it. `handle`
/// may be null if properties describe the card.
std::optional<CudnnGraph> make_graph(std::vector<CudnnDescriptor> parts, cudnnHandle_t handle, int device);

/// Returns the first engine in cuDNN's order that keeps the rules and can be finalized, or nullopt. The rules exclude
/// engines that cuDNN calls nondeterministic, that accumulate with less precision than the compute type, that need more
/// than 1 GiB of workspace, or that, for float32 without TF32, round the factors.
std::optional<CudnnPlan> find_plan(CudnnGraph graph, const EngineTarget& target, const EngineRules& rules, int device);

}  // namespace lockstep::gpu
