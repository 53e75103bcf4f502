// Which of cuDNN's engines does an operation graph: one that gives the same bits each time, in the precision that was
// asked for. Not safe from several threads.
#pragma once

#include <optional>

#include <lockstep/core/dtype.h>

#include "runtime/cuda/cudnn/descriptor.h"

namespace lockstep::gpu {

/// What engines are chosen and compiled for: the current card of a handle; or a card that is described, which need not
/// be there (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR).
struct EngineTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

struct EngineRules {
  DType dtype = kFloat32;
  bool tf32 = false;  ///< The factors of float32 may be rounded to TF32.
};

/// An operation graph of finalized operations. The descriptors are what the graph is made of, in the order of making.
struct CudnnGraph {
  std::vector<CudnnDescriptor> parts;
  CudnnDescriptor graph;
};

/// Ready to be executed. What it was made of lives as long.
struct CudnnPlan {
  CudnnGraph graph;
  CudnnDescriptor configuration;
  CudnnDescriptor plan;
  std::int64_t workspace_bytes = 0;
};

/// Finalizes a graph of one operation, which is the last of the parts; nothing if cuDNN does not support it. `handle`
/// may be null where properties stand for the card.
std::optional<CudnnGraph> make_graph(std::vector<CudnnDescriptor> parts, cudnnHandle_t handle, int device);

/// The first engine of cuDNN's order that keeps the rules and can be made ready, or nothing. Engines that cuDNN calls
/// not deterministic are refused, those that add in less than the compute type, those that need more than 1 GiB of
/// workspace, and for float32 without TF32 those that round its factors.
std::optional<CudnnPlan> find_plan(CudnnGraph graph, const EngineTarget& target, const EngineRules& rules, int device);

}  // namespace lockstep::gpu
