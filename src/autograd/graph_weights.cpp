// Preparations of a backward over several processes: the weight of this process's loss, and the order of collective
// operations.
#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <lockstep/core/error.h>

#include "autograd/graph_task.h"
#include "autograd/record.h"
#include "autograd/several_processes.h"
#include "core/text.h"

namespace lockstep::autograd {
namespace {

const ProcessShares& shares_of(const Node& node) { return *static_cast<const PassBoundary&>(node).shares; }

// True if the operation is linear, so that the gradient of each input does not depend on the values of the inputs.
bool adds_inputs(const Node& node) {
  static constexpr std::array<std::string_view, 18> kAlways = {
      "Add",     "AsStrided", "Cat",    "Clone", "Copy",  "Expand", "Gather", "Join", "Mean",
      "Permute", "Scatter",   "Select", "Slice", "Stack", "Sub",    "Sum",    "To",   "View"};
  const std::string_view op = node.op;
  if (std::ranges::find(kAlways, op) != kAlways.end()) return true;
  // A product with, or a quotient by, a number or a tensor outside of the graph is linear.
  const auto inputs = std::ranges::count_if(node.edges, [](const Edge& edge) { return edge.node != nullptr; });
  return inputs == 1 && (op == "Mul" || (op == "Div" && node.edges[0].node));
}

}  // namespace

Gradients PassBoundary::backward(const Gradients& output_gradients) {
  return {at_boundary(output_gradients[0], shares)};
}

Tensor at_boundary(const Tensor& x, const std::shared_ptr<const ProcessShares>& shares) {
  if (!records(x)) return x;
  Tensor out = x.detach();
  attach(std::make_shared<PassBoundary>(x, shares), std::span(&out, 1));
  return out;
}

std::shared_ptr<const ProcessShares> shares_of_pass(const Tensor& x) {
  std::shared_ptr<const ProcessShares> found;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> left;
  const auto look = [&](const Edge& edge) {
    if (edge.node && seen.insert(edge.node.get()).second) left.push_back(edge.node.get());
  };
  look(gradient_edge(x));
  while (!left.empty()) {
    const Node& node = *left.back();
    left.pop_back();
    if (node.kind != NodeKind::pass_boundary) {
      for (const Edge& edge : node.edges) look(edge);
      continue;
    }
    const auto& shares = static_cast<const PassBoundary&>(node).shares;
    if (found && found->of_each != shares->of_each)
      throw AutogradError(
          "[over_processes] the mean was computed from passes whose rows are divided differently between processes: "
          "call over_processes() on the mean of each pass, then add");
    found = shares;
  }
  return found;
}

double GraphTask::weigh_passes() {
  if (boundaries_.empty()) {
    for (const NodeState* const leaf : leaves_)
      if (const Replica* const replica = replica_of(*leaf->node->leaf()))
        if (const auto listener = replica->parameter->listener()) return listener->weight_without_pass();
    return 1;
  }
  const ProcessShares& first = shares_of(*boundaries_.front()->node);
  const bool alike = std::ranges::all_of(
      boundaries_, [&](const NodeState* state) { return shares_of(*state->node).of_each == first.of_each; });
  if (alike) return first.own();
  weigh_each_pass();
  return 1 / double(first.of_each.size());
}

// Sets the weights of all nodes when passes have different shares. A node has the weight of the pass from which its
// value was computed. A node that adds results of several passes, or whose value was computed from parameters only, has
// no pass, and the same weight in all processes. A gradient that flows from such a node to a node of one pass is
// multiplied by that pass's share. The output of a pass belongs to that pass, even if its input comes from another
// pass.
void GraphTask::weigh_each_pass() {
  struct Passes {
    const ProcessShares* one = nullptr;
    bool several = false;

    void add(const Passes& other) {
      several = several || other.several || (one && other.one && one->of_each != other.one->of_each);
      if (!one) one = other.one;
    }
  };
  std::vector<NodeState*> order;
  for (auto& [node, state] : states_) order.push_back(&state);
  std::ranges::sort(order, {}, [](const NodeState* state) { return state->node->sequence; });
  std::unordered_map<const Node*, Passes> passes_of;
  for (NodeState* const state : order) {
    const Node& node = *state->node;
    Passes& passes = passes_of[&node];
    if (node.kind == NodeKind::pass_boundary)
      passes.one = &shares_of(node);
    else
      for (const Edge& edge : node.edges)
        if (edge.node) passes.add(passes_of[edge.node.get()]);
    if (passes.several && !adds_inputs(node))
      throw AutogradError(
          text("[backward] the loss combines passes with different numbers of rows per process in ", node.op,
               ", which is not a linear operation. Give all passes the same rows, or compute both terms in one pass"));
    state->sends_weighted = !passes.several;
    if (passes.one && !passes.several) state->weight = passes.one->own() * double(passes.one->of_each.size());
  }
}

void GraphTask::order_collectives() {
  std::erase_if(collectives_, [](const NodeState* state) { return !state->needed; });
  if (collectives_.empty()) return;
  std::ranges::sort(collectives_, std::greater(), [](const NodeState* state) { return state->node->sequence; });
  std::vector<std::string> all;
  for (std::size_t i = 0; i < collectives_.size(); ++i) {
    all.push_back(static_cast<const CollectiveNode&>(*collectives_[i]->node).what());
    if (i == 0) continue;
    collectives_[i - 1]->next_collective = collectives_[i];
    ++collectives_[i]->pending;
  }
  static_cast<const CollectiveNode&>(*collectives_[0]->node).agree(all);
}

}  // namespace lockstep::autograd
