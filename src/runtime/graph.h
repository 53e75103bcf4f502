// A captured piece of work of all GPUs: the streams, the memory and the events around what a backend keeps (graphs.h).
//
//   GraphCapture capture;      // from here on work is kept, and not done
//   step();
//   Graph graph = capture.end();
//   graph.launch();            // does it
//
// Memory that is allocated meanwhile comes from pools of the graph's own, and what is freed stays there: the graph
// finds its addresses as they were, as long as it lives.
#pragma once

#include <memory>

#include "runtime/backend.h"

namespace lockstep {

/// Work that can be enqueued again. It goes to the streams that were current when it was captured, after what is there;
/// what is enqueued there later comes after it.
class Graph {
 public:
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();  ///< Waits until its work has ended.

  void launch();
  /// Whether a communicator that the work uses has failed since: then it must not be launched any more.
  bool has_failed() const noexcept;

 private:
  friend class GraphCapture;
  struct State;
  explicit Graph(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Keeps the work that is enqueued on the current streams of all GPUs, and on those that wait for it.
class GraphCapture {
 public:
  /// Throws InvalidArgument where there is no GPU, where its backend keeps no work, or where a capture is on its way.
  GraphCapture();
  ~GraphCapture();  ///< Drops what was kept, unless it was ended.
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  Graph end();

 private:
  std::unique_ptr<Graph::State> state_;
};

}  // namespace lockstep
