#include "backends/cuda/cuda_graphs.h"

#include <mutex>

#include <lockstep/core/error.h>

#include "backends/cuda/cuda_stream.h"
#include "core/text.h"

namespace lockstep::gpu {
namespace {

using OwnedGraph = std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>>;

}  // namespace

// Relaxed mode: other threads may call CUDA freely; the backend itself refuses the calls that a capture forbids.
void CudaGraphs::begin_capture(StreamHandle origin) {
  const std::scoped_lock question_lock(question_mutex_);
  if (is_active_.exchange(true)) throw InvalidArgument("[capture] expected one capture at a time, got a second one");
  const CudaStream& stream = stream_of(origin);
  use_card(stream.card);
  const cudaError_t result = cudaStreamBeginCapture(stream.stream.get(), cudaStreamCaptureModeRelaxed);
  if (result != cudaSuccess) is_active_ = false;
  check(result, "cudaStreamBeginCapture", stream.device);
}

bool CudaGraphs::is_capturing(StreamHandle stream) { return is_active() && gpu::is_capturing(stream_of(stream)); }

std::optional<bool> CudaGraphs::ask(const CudaStream& stream) {
  const auto no_capture_begins = hold_off();
  if (is_active() && gpu::is_capturing(stream)) return std::nullopt;
  return has_ended(stream.stream.get(), stream.device);
}

GraphHandle CudaGraphs::end_capture(StreamHandle origin) {
  const CudaStream& stream = stream_of(origin);
  use_card(stream.card);
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.stream.get(), &captured);
  is_active_ = false;
  check(ended, "cudaStreamEndCapture", stream.device);
  const OwnedGraph graph(captured);
  cudaGraphExec_t ready = nullptr;
  const std::scoped_lock issue_lock(issue_mutex_);
  check(cudaGraphInstantiateWithFlags(&ready, graph.get(), 0), "cudaGraphInstantiate", stream.device);
  return ready;
}

void CudaGraphs::abandon_capture(StreamHandle origin) noexcept {
  if (!is_active()) return;
  cudaGraph_t captured = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream_of(origin).stream.get(), &captured));
  cudaGetLastError();
  is_active_ = false;
  if (captured) OwnedGraph(captured).reset();
}

void CudaGraphs::launch(StreamHandle origin, GraphHandle graph) {
  const CudaStream& stream = stream_of(origin);
  use_card(stream.card);
  const std::scoped_lock lock(issue_mutex_);
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream.stream.get()), "cudaGraphLaunch", stream.device);
}

void CudaGraphs::destroy(GraphHandle graph) noexcept {
  try {
    const std::scoped_lock issue_lock(issue_mutex_);
    static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
  } catch (...) {  // only the lock may throw
  }
}

void CudaGraphs::refuse(std::string_view what, const CudaEvent& event) {
  if (event.is_captured) refuse_in_capture(what, text("an event of captured work of ", Device::cuda(event.device)));
}

}  // namespace lockstep::gpu
