#include "backends/cuda/cudnn/engines.h"

#include <algorithm>

namespace lockstep::gpu {
namespace {

constexpr std::int64_t kMaxWorkspace = std::int64_t(1) << 30;
// Deprecated, because graphs need no handle any more; but older versions of cuDNN 9 require it.
constexpr cudnnBackendAttributeName_t kHandleOfGraph = CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
constexpr cudnnBackendAttributeName_t kHandleOfPlan = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;

bool keeps(const EngineRules& rules, cudnnBackendNumericalNote_t note) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return rules.dtype != kFloat32 || rules.tf32;
    default: return true;
  }
}

bool keeps(const EngineRules& rules, const CudnnDescriptor& configuration, int device) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, device);
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  const auto notes =
      engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::ranges::all_of(notes, [&](cudnnBackendNumericalNote_t note) { return keeps(rules, note); });
}

std::vector<CudnnDescriptor> configurations(const CudnnGraph& graph, const EngineTarget& target,
                                            cudnnBackendHeurMode_t mode, int device) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, device);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.properties) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  if (!heuristics.finalize()) return {};
  return heuristics.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

}  // namespace

std::optional<CudnnGraph> make_graph(std::vector<CudnnDescriptor> parts, cudnnHandle_t handle, int device) {
  CudnnGraph graph{std::move(parts), CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, device)};
  if (handle) graph.graph.set(kHandleOfGraph, handle);
  graph.graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph.parts.back());
  if (!graph.graph.finalize()) return std::nullopt;
  return graph;
}

std::optional<CudnnPlan> find_plan(CudnnGraph graph, const EngineTarget& target, const EngineRules& rules, int device) {
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (CudnnDescriptor& configuration : configurations(graph, target, mode, device)) {
      if (!keeps(rules, configuration, device)) continue;
      CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, device);
      if (target.handle) plan.set(kHandleOfPlan, target.handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (target.properties) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
      if (!plan.try_finalize()) continue;  // cuDNN's heuristics may return engines that do not work
      const std::int64_t bytes = plan.get_all<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1).front();
      if (bytes > kMaxWorkspace) continue;
      return CudnnPlan{std::move(graph), std::move(configuration), std::move(plan), bytes};
    }
  return std::nullopt;
}

}  // namespace lockstep::gpu
