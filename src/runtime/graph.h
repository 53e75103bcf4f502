// A captured piece of work of all GPUs: the streams, memory and events around a backend's graph (graphs.h).
//
//   GraphCapture capture;      // from here on, work is captured instead of executed
//   step();
//   Graph graph = capture.end();
//   graph.launch();            // executes it
//
// During the capture, memory is allocated from pools of the graph, and freed memory returns to these pools. So the
// addresses stay valid as long as the graph exists.
#pragma once

#include <memory>

#include "runtime/backend.h"

namespace lockstep {

/// Captured work that can be enqueued repeatedly. launch() orders it after the earlier work and before the later work
/// of the streams that were current at the capture.
class Graph {
 public:
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();  ///< Waits until the work of its last launch has ended.

  void launch();
  /// Returns true if a communicator that the captured work uses has failed since the capture. The graph must then not
  /// be launched any more.
  bool has_failed() const noexcept;

 private:
  friend class GraphCapture;
  struct State;
  explicit Graph(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Captures the work that is enqueued on the current streams of all GPUs, and on streams that wait for them.
class GraphCapture {
 public:
  /// Throws InvalidArgument if there is no GPU, its backend cannot capture, or another capture is active.
  GraphCapture();
  ~GraphCapture();  ///< Discards the captured work, unless end() was called.
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  Graph end();

 private:
  std::unique_ptr<Graph::State> state_;
};

}  // namespace lockstep
