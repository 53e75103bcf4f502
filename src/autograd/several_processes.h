// Nodes that a backward over several processes must find before it runs: the boundaries at which a graph enters or
// leaves a model, and collective operations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/node.h"
#include "autograd/record.h"

namespace lockstep::autograd {

/// The weights of the processes' losses in one pass, which sum to 1.
struct ProcessShares {
  std::vector<double> of_each;  ///< One weight for each process, by rank.
  std::size_t here = 0;         ///< This process's rank.

  double own() const noexcept { return of_each[here]; }
};

/// An identity node where a tensor enters or leaves a model of several processes. A backward that reaches such a node
/// multiplies its root's gradient by the pass's share (graph_weights.cpp); the node itself does not multiply.
class PassBoundary final : public Node {
 public:
  PassBoundary(const Tensor& x, std::shared_ptr<const ProcessShares> shares_of_pass)
      : Node("PassBoundary", x.device(), {gradient_edge(x)}, NodeKind::pass_boundary),
        shares(std::move(shares_of_pass)) {}

  Gradients backward(const Gradients& output_gradients) override;

  const std::shared_ptr<const ProcessShares> shares;
};

/// Returns x behind a PassBoundary, or x itself if gradients are not recorded. The node's backward calls this function
/// too, so a gradient of a gradient also reaches a boundary.
Tensor at_boundary(const Tensor& x, const std::shared_ptr<const ProcessShares>& shares);

/// The shares of the pass from which x was computed: for each process, the weight of a backward of x, or of a loss in
/// which x is a summand. Null if x was computed without a pass, or if no gradient is recorded. Throws AutogradError if
/// x was computed from passes with different shares.
std::shared_ptr<const ProcessShares> shares_of_pass(const Tensor& x);

/// A node whose backward is a collective operation of several processes. All processes run these nodes in one order,
/// the reverse order of their forward operations, even if another node becomes ready earlier.
class CollectiveNode : public Node {
 public:
  CollectiveNode(const char* forward_op, const Device& device, std::vector<Edge> inputs)
      : Node(forward_op, device, std::move(inputs), NodeKind::collective) {}

  /// Describes the operation: the same text in every process.
  virtual std::string what() const = 0;
  /// Compares the list `all`, the what() of the collectives that this backward will run, with those of the other
  /// processes. If one is missing or differs, throws an InvalidArgument in every process, which names the first such
  /// collective.
  virtual void agree(const std::vector<std::string>& all) const = 0;
};

}  // namespace lockstep::autograd
