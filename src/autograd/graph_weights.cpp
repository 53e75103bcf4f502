// What a backward over several processes settles before it runs: by how much the loss of this process counts, and the
// order of collective operations.
#include <algorithm>
#include <vector>

#include <lockstep/core/error.h>

#include "autograd/graph_task.h"
#include "autograd/record.h"
#include "autograd/several_processes.h"
#include "core/text.h"

namespace lockstep::autograd {
namespace {

const ProcessShares& shares_of(const Node& node) { return *static_cast<const PassBoundary&>(node).shares; }

}  // namespace

Gradients PassBoundary::backward(const Gradients& output_gradients) {
  return {at_boundary(output_gradients[0], shares)};
}

Tensor at_boundary(const Tensor& x, const std::shared_ptr<const ProcessShares>& shares) {
  if (!records(x)) return x;
  Tensor out = x.detach();
  const auto node = std::make_shared<PassBoundary>(x.device(), shares);
  node->edges.push_back(gradient_edge(x));
  attach(node, std::span(&out, 1));
  return out;
}

double GraphTask::weigh_passes() {
  if (boundaries_.empty()) {
    for (const Visit* const leaf : leaves_)
      if (const Replica* const replica = replica_of(*leaf->node->leaf()))
        if (const auto listener = replica->parameter->listener()) return listener->lone_share();
    return 1;
  }
  const ProcessShares& first = shares_of(*boundaries_.front()->node);
  const bool alike = std::ranges::all_of(
      boundaries_, [&](const Visit* visit) { return shares_of(*visit->node).of_each == first.of_each; });
  if (alike) return first.own();
  weigh_each_pass();
  return 1 / double(first.of_each.size());
}

// Passes of different shares: the root counts alike in all processes, and a gradient that comes into a pass from
// outside of all passes as the pass's rows do. What comes out of another pass, into which its own loss's gradient came,
// counts already.
void GraphTask::weigh_each_pass() {
  struct Reached {
    bool from_outside = false, from_inside = false;
  };
  std::vector<Visit*> order;
  for (auto& [node, visit] : visits_)
    if (!node->edges.empty()) order.push_back(&visit);
  std::ranges::sort(order, std::greater(), [](const Visit* visit) { return visit->node->sequence; });
  std::unordered_map<const Node*, Reached> reached;
  for (const Edge& root : roots_) reached[root.node.get()].from_outside = true;
  for (Visit* const visit : order) {
    Reached here = reached[visit->node.get()];
    if (visit->node->kind == NodeKind::pass_boundary) {
      const ProcessShares& shares = shares_of(*visit->node);
      visit->weight = shares.own() * double(shares.of_each.size());
      here = {.from_inside = true};
    }
    visit->counts = here.from_inside;
    for (const Edge& edge : visit->node->edges) {
      if (!edge.node) continue;
      if (here.from_outside && here.from_inside && edge.node->kind == NodeKind::pass_boundary)
        throw AutogradError(
            "[backward] expected the loss to use an output of a model of several processes directly, or through "
            "another pass that has other rows, got a result of that output used both ways: call backward() for each of "
            "the two terms");
      Reached& next = reached[edge.node.get()];
      next.from_outside = next.from_outside || here.from_outside;
      next.from_inside = next.from_inside || here.from_inside;
    }
  }
}

void GraphTask::order_collectives() {
  std::erase_if(collectives_, [](const Visit* visit) { return !visit->needed; });
  if (collectives_.empty()) return;
  std::ranges::sort(collectives_, std::greater(), [](const Visit* visit) { return visit->node->sequence; });
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
