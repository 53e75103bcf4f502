// The graph: a node for each recorded operation, with edges to where the gradients of its inputs go. Made by one
// thread; a backward runs each node on one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/hooks.h"

namespace lockstep::autograd {

class Node;

/// One for each input of an operation; undefined where no gradient flows.
using Gradients = std::vector<Tensor>;

/// The input `slot` of `node`, which is the output of the forward operation.
struct Edge {
  std::shared_ptr<Node> node;
  int slot = 0;
};

/// What a backward has to know of a node before it runs.
enum class NodeKind : std::uint8_t {
  operation,
  leaf,           ///< Where the gradient of a leaf ends.
  pass_boundary,  ///< A PassBoundary.
  collective,     ///< A CollectiveNode.
};

class Node {
 public:
  Node(const char* op, const Device& device, NodeKind kind = NodeKind::operation);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// From the gradients of the outputs (undefined where none arrived) to those of the inputs.
  virtual Gradients backward(const Gradients& output_gradients) = 0;
  /// Frees saved tensors; a later backward() throws AutogradError.
  virtual void release() {}
  /// The tensor whose gradient ends here; null for a node of an operation.
  virtual const Tensor* leaf() const noexcept { return nullptr; }

  const std::string& name() const;  ///< "AddmmBackward": made when somebody asks for it. Safe from any thread.

  const char* const op;          ///< The forward operation, such as "Addmm".
  const std::uint64_t sequence;  ///< Grows with each node of this process: consumers come after producers.
  const Stream stream;           ///< Where the forward operation ran.
  int outputs = 1;
  const NodeKind kind;
  std::vector<Edge> edges;  ///< One for each input.

  Hooks<std::pair<int, std::function<Tensor(const Tensor&)>>> hooks;  ///< By output.

 private:
  mutable std::once_flag named_;
  mutable std::string name_;
};

/// The least `sequence` of the nodes to come.
std::uint64_t next_node() noexcept;

/// What a node may ask of the backward that runs it.
class RunningBackward {
 public:
  /// Whether the gradient that goes along the edge is the only one that will be accumulated there.
  virtual bool brings_all(const Edge& edge) const = 0;

 protected:
  ~RunningBackward() = default;
};

/// While it lives, `node` is the one that this thread runs backward of.
class RunningNode {
 public:
  RunningNode(const std::shared_ptr<Node>& node, const RunningBackward& in) noexcept;
  ~RunningNode();
  RunningNode(const RunningNode&) = delete;
  RunningNode& operator=(const RunningNode&) = delete;

  static const RunningNode* current() noexcept;  ///< Null outside of backward.

  const std::shared_ptr<Node>& node;
  const RunningBackward& in;

 private:
  const RunningNode* const outer_;
};

}  // namespace lockstep::autograd
