// Nodes of which a backward over several processes knows before it runs: where a graph enters and leaves a model, and
// collective operations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/node.h"

namespace lockstep::autograd {

/// By how much each process's loss counts in one pass: they sum to 1.
struct ProcessShares {
  std::vector<double> of_each;  ///< By rank of the process.
  std::size_t here = 0;         ///< This process's rank.

  double own() const noexcept { return of_each[here]; }
};

/// The identity, where a tensor enters or leaves a model of several processes. A backward that comes to one multiplies
/// its root's gradient by the pass's share (graph_weights.cpp); the node itself multiplies nothing.
class PassBoundary final : public Node {
 public:
  PassBoundary(const Device& device, std::shared_ptr<const ProcessShares> shares_of_pass)
      : Node("PassBoundary", device, NodeKind::pass_boundary), shares(std::move(shares_of_pass)) {}

  Gradients backward(const Gradients& output_gradients) override;

  const std::shared_ptr<const ProcessShares> shares;
};

/// x, with a boundary between it and what is computed from it; x itself where nothing is recorded. So the gradient of a
/// gradient meets a boundary too.
Tensor at_boundary(const Tensor& x, const std::shared_ptr<const ProcessShares>& shares);

/// The shares of the pass that x was computed from: by that much a backward of x, or of a loss that adds x up with others,
/// counts in each process. Null for none, or where no gradient is recorded. Throws AutogradError for passes whose shares
/// differ.
std::shared_ptr<const ProcessShares> shares_of_pass(const Tensor& x);

/// A node whose backward is a collective operation of several processes. All run theirs in one order: the reverse of
/// the order of their forward operations, whatever becomes ready first.
class CollectiveNode : public Node {
 public:
  CollectiveNode(const char* forward_op, const Device& device) : Node(forward_op, device, NodeKind::collective) {}

  /// Which operation this is: the same words in every process.
  virtual std::string what() const = 0;
  /// Compares what all processes are about to run, in that order. Throws InvalidArgument, in every process, for the
  /// first that is missing or differs.
  virtual void agree(const std::vector<std::string>& all) const = 0;
};

}  // namespace lockstep::autograd
