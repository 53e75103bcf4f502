// The autograd graph: a node for each recorded operation, with edges to the nodes that take the gradients of its
// inputs. One thread makes a node; a backward runs each node on one thread at a time.
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

/// One gradient for each input of an operation; an undefined Tensor if no gradient flows to that input.
using Gradients = std::vector<Tensor>;

/// Refers to output `slot` of the forward operation of `node`. The gradient of that output is input `slot` of
/// node->backward().
struct Edge {
  std::shared_ptr<Node> node;
  int slot = 0;
};

/// The kinds of nodes that a backward must know before it runs.
enum class NodeKind : std::uint8_t {
  operation,
  leaf,           ///< The grad accumulator of a leaf.
  pass_boundary,  ///< A PassBoundary.
  collective,     ///< A CollectiveNode.
};

class Node {
 public:
  /// `inputs`: computed before the node gets its number, because to find a view's edge may make a node, and that must
  /// get a smaller number.
  Node(const char* op, const Device& device, std::vector<Edge> inputs, NodeKind kind = NodeKind::operation);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Computes the gradients of the inputs from the gradients of the outputs (an undefined Tensor if none arrived).
  virtual Gradients backward(const Gradients& output_gradients) = 0;
  /// Frees saved tensors; a later backward() throws AutogradError.
  virtual void release() {}
  /// The leaf of a grad accumulator; null for other nodes.
  virtual const Tensor* leaf() const noexcept { return nullptr; }

  const std::string& name() const;  ///< Such as "AddmmBackward". The first call makes it. Any thread may call it.

  const char* const op;          ///< The forward operation, such as "Addmm".
  const std::uint64_t sequence;  ///< Counts the nodes of this process: a consumer's is greater than its producers'.
  const Stream stream;           ///< The stream of the forward operation.
  int outputs = 1;
  int inner_output = -1;  ///< An output that another one is computed from: its gradient lacks that part.
  const NodeKind kind;
  std::vector<Edge> edges;  ///< One for each input.

  Hooks<std::pair<int, std::function<Tensor(const Tensor&)>>> hooks;  ///< Each with the index of its output.

 private:
  mutable std::once_flag named_;
  mutable std::string name_;
};

/// The `sequence` that the next node will get.
std::uint64_t next_node() noexcept;

/// The functions of a running backward that nodes may call.
class RunningBackward {
 public:
  const std::uint64_t id;  ///< Counts the backwards of the process, from 1.
  /// True if the gradient along the edge is the only one that this backward accumulates in the edge's leaf.
  virtual bool is_only_gradient(const Edge& edge) const = 0;
  /// True if the saved tensors of each node are freed when its backward has returned.
  virtual bool frees_saved() const = 0;

 protected:
  RunningBackward() noexcept;
  ~RunningBackward() = default;
};

/// While it lives, this thread runs the backward of `node`.
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
