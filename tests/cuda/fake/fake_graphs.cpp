// The fake CUDA runtime's captured work, and graphs of it.
#include <algorithm>
#include <utility>

#include "cuda/fake/fake_work.h"

namespace lockstep::fake {
namespace {

// Runs all nodes in an order that the graph permits: of the ready nodes, the newest first (or the oldest).
void do_all(const std::vector<CUgraph_st::Node>& nodes) {
  std::vector<bool> done(nodes.size());
  for (std::size_t left = nodes.size(); left > 0; --left) {
    std::size_t next = nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::size_t n = machine().earliest_first ? i : nodes.size() - 1 - i;
      if (!done[n] && std::ranges::all_of(nodes[n].after, [&](int before) { return done[std::size_t(before)]; })) {
        next = n;
        break;
      }
    }
    done[next] = true;
    if (nodes[next].run) nodes[next].run();
  }
}

bool is_joined(const CUgraph_st& graph, std::set<int> reached) {
  for (bool grows = true; grows;) {
    const std::size_t before = reached.size();
    for (const int number : std::set<int>(reached))
      reached.insert(graph.nodes[std::size_t(number)].after.begin(), graph.nodes[std::size_t(number)].after.end());
    grows = reached.size() > before;
  }
  return reached.size() == graph.nodes.size();
}

}  // namespace

cudaError_t capture(std::span<const cudaStream_t> of, std::function<void()> run, std::function<bool()> ready) {
  const auto held = lock();
  const std::shared_ptr<CUgraph_st> graph = of.front()->capture;
  CUgraph_st::Node node{of.front()->card, std::move(run), std::move(ready), {}};
  const int number = int(graph->nodes.size());
  for (const cudaStream_t stream : of) {
    if (stream->capture != graph) {
      complain("work of a stream that captures, and of one that does not");
      return cudaErrorStreamCaptureUnmatched;
    }
    node.after.insert(stream->last.begin(), stream->last.end());
    stream->last = {number};
  }
  graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

bool is_capturing(cudaStream_t stream) {
  const auto held = lock();
  return stream->capture != nullptr;
}

cudaError_t invalidate(CUgraph_st& graph, const char* why, cudaError_t error) {
  complain(why);
  graph.is_invalid = true;
  return error;
}

}  // namespace lockstep::fake

using namespace lockstep::fake;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  use_card();
  const auto held = lock();
  if (mode != cudaStreamCaptureModeRelaxed) complain("a capture in which other threads may do less");
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->streams.insert(stream);
  stream->last.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const auto held = lock();
  *status = !stream->capture              ? cudaStreamCaptureStatusNone
            : stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto held = lock();
  *graph = nullptr;
  const std::shared_ptr<CUgraph_st> captured = stream->capture;
  if (!captured) return cudaErrorIllegalState;
  const bool joined = is_joined(*captured, stream->last);
  for (const cudaStream_t each : captured->streams) {
    each->capture = nullptr;
    each->last.clear();
  }
  captured->streams.clear();
  if (captured->is_invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{captured->nodes, {}, false};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  may_wait_for_cards("cudaGraphInstantiate");
  const auto held = lock();
  *ready = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const auto held = lock();
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
  use_card();
  const auto held = lock();
  if (stream->capture) complain("a graph that is launched while another one is captured");
  const auto may_run = [](const CUgraph_st::Node& node) { return !node.ready || node.ready(); };
  return enqueue(
      stream, [ready] { do_all(ready->nodes); },
      [ready, may_run] { return std::ranges::all_of(ready->nodes, may_run); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  may_wait_for_cards("cudaGraphExecDestroy");
  const auto held = lock();
  delete ready;
  return cudaSuccess;
}

}  // extern "C"
