// Nodes that a backward over several processes must know before it runs: the boundaries where a graph enters and leaves
// a model, and collective operations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/node.h"

namespace lockstep::autograd {

/// The weights of the processes' losses in one pass, which sum to 1.
struct ProcessShares {
  std::vector<double> of_each;  ///< By process rank.
  std::size_t here = 0;         ///< This process's rank.

  double own() const noexcept { return of_each[here]; }
};

/// The identity, where a tensor enters or leaves a model of several processes. A backward that reaches one multiplies
/// its root's gradient by the pass's share (graph_weights.cpp); the node itself does not multiply.
class PassBoundary final : public Node {
 public:
  PassBoundary(const Tensor& x, std::shared_ptr<const ProcessShares> shares_of_pass)
      : Node("PassBoundary", x.device(), {gradient_edge(x)}, NodeKind::pass_boundary),
        shares(std::move(shares_of_pass)) {}

  Gradients backward(const Gradients& output_gradients) override;

  const std::shared_ptr<const ProcessShares> shares;
};

/// x behind a PassBoundary; x itself if gradients are not recorded. Backward is recorded with this function too, so a
/// gradient of a gradient also meets a boundary.
Tensor at_boundary(const Tensor& x, const std::shared_ptr<const ProcessShares>& shares);

/// The shares of the pass from which x was computed: the weights of a backward of x, or of a loss that adds x to
/// others, in each process. Null if there is no pass, or no gradient is recorded. Throws AutogradError if x was
/// computed from passes with different shares.
std::shared_ptr<const ProcessShares> shares_of_pass(const Tensor& x);

/// A node whose backward is a collective operation of several processes. All processes run these nodes in one order:
/// the reverse of the order of their forward operations, whichever is ready first.
class CollectiveNode : public Node {
 public:
  CollectiveNode(const char* forward_op, const Device& device, std::vector<Edge> inputs)
      : Node(forward_op, device, std::move(inputs), NodeKind::collective) {}

  /// Describes the operation: the same text in every process.
  virtual std::string what() const = 0;
  /// Compares the collectives that all processes will run, in order. Throws InvalidArgument, in every process, for the
  /// first that is missing or differs.
  virtual void agree(const std::vector<std::string>& all) const = 0;
};

}  // namespace lockstep::autograd
