#include "autograd/node.h"

#include <atomic>

#include "autograd/deferred_destruction.h"
#include "core/context.h"

namespace lockstep::autograd {
namespace {

std::atomic<std::uint64_t> next_sequence = 0, backwards = 0;

}  // namespace

std::uint64_t next_node() noexcept { return next_sequence.load(std::memory_order_relaxed); }

Node::Node(const char* forward_op, const Device& device, std::vector<Edge> inputs, NodeKind node_kind)
    : op(forward_op),
      sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      stream(current_stream(device)),
      kind(node_kind),
      edges(std::move(inputs)) {}

const std::string& Node::name() const {
  std::call_once(named_, [this] { name_ = std::string(op) + "Backward"; });
  return name_;
}

Node::~Node() {
  DeferredDestruction::destroy([this](DeferredDestruction& all) {
    for (Edge& edge : edges) all.add(std::move(edge.node));
  });
}

RunningBackward::RunningBackward() noexcept : id(++backwards) {}

RunningNode::RunningNode(const std::shared_ptr<Node>& which, const RunningBackward& backward) noexcept
    : node(which), in(backward), outer_(std::exchange(context().running_node, this)) {}
RunningNode::~RunningNode() { context().running_node = outer_; }
const RunningNode* RunningNode::current() noexcept { return context().running_node; }

}  // namespace lockstep::autograd
