// The part of a backward that runs on the caller's thread: it discovers the graph, prepares the capture of gradients,
// and orders streams before and after the nodes run.
#include "autograd/graph_task.h"

#include <algorithm>

#include <lockstep/autograd/grad_mode.h>

#include "autograd/record.h"
#include "autograd/step_leaf.h"
#include "core/context.h"
#include "core/text.h"
#include "tensor/philox.h"
#include "tensor/replay_values.h"

namespace lockstep::autograd {

GraphTask::GradientSource::GradientSource(const Node& node)
    : device(node.stream.device().is_cpu() ? -1 : node.stream.device().index()), sequence(node.sequence) {}

namespace {

// Throws if this thread captures a step and the node was recorded before that: replays would not compute the saved
// tensors of the node again.
void refuse_of_other_step(const Node& node) {
  if (const ReplayValues* const captured = context().replay_values; captured && node.sequence < captured->first_node())
    throw InvalidArgument(text("[backward] the captured step's backward reaches ", node.name(),
                               ", recorded before the step began: run the whole forward inside the step"));
}

}  // namespace

void GraphTask::reach(const Tensor& root) {
  roots_.push_back(gradient_edge(root));
  discover(roots_.back().node);
}

void GraphTask::add_root(const Tensor& root, const Tensor& gradient) {
  const Edge edge = gradient_edge(root);
  // The caller made `gradient` on its own stream. It can be used on the node's stream, because fork_streams() orders
  // that stream after the caller's work.
  states_.at(edge.node.get()).arrivals.push_back({edge.slot, GradientSource(*edge.node), edge.node->stream, gradient});
}

// Adds the node to the list of its kind: nodes of some kinds must be known before any node runs.
void GraphTask::note(NodeState& state) {
  switch (state.node->kind) {
    case NodeKind::operation: break;
    case NodeKind::leaf:
      if (meta_of(*state.node->leaf())->replica) leaves_.push_back(&state);
      break;
    case NodeKind::pass_boundary: boundaries_.push_back(&state); break;
    case NodeKind::collective: collectives_.push_back(&state); break;
  }
}

void GraphTask::discover(const std::shared_ptr<Node>& root) {
  std::pmr::vector<NodeState*> stack(&memory_);
  const auto visit = [&](const std::shared_ptr<Node>& node) -> NodeState& {
    auto [place, fresh] = states_.try_emplace(node.get(), &memory_);
    if (fresh) {
      if (const Tensor* const leaf = node->leaf())
        use_in_step(*leaf);
      else
        refuse_of_other_step(*node);
      place->second.node = node;
      use(node->stream);
      stack.push_back(&place->second);
      note(place->second);
    }
    return place->second;
  };
  visit(root);
  while (!stack.empty()) {
    NodeState* const current = stack.back();
    stack.pop_back();
    for (const Edge& edge : current->node->edges)
      if (edge.node) {
        NodeState& next = visit(edge.node);
        next.producers = ++next.pending;
        next.last_producer = std::min(next.last_producer, current->node->sequence);
      }
  }
}

void GraphTask::capture(std::span<const Tensor> inputs) {
  captured_.resize(inputs.size());
  std::vector<std::pair<std::uint64_t, NodeState*>> order;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    impl_of("gradients", inputs[i]);
    const Edge edge = gradient_edge(inputs[i]);
    if (!edge.node)
      throw AutogradError(
          text("[gradients] input ", i, " does not require a gradient: call requires_grad_() on it before forward"));
    refuse_inner("gradients", inputs[i]);
    captures_[edge.node.get()].push_back({edge.slot, i});
    capture_replicas(inputs[i], i);
  }
  for (auto& [node, state] : states_) {
    state.needed = captures_.contains(node);
    state.passes_on = false;
    if (!node->edges.empty()) order.emplace_back(node->sequence, &state);
  }
  std::ranges::sort(order);  // in forward order: producers of a tensor before its consumers
  for (auto& [sequence, state] : order)
    for (const Edge& edge : state->node->edges)
      if (edge.node && states_.at(edge.node.get()).needed) state->needed = state->passes_on = true;
  accumulates_ = false;
}

void GraphTask::capture_replicas(const Tensor& input, std::size_t index) {
  if (!meta_of(input)->replica) return;
  for (const NodeState* const state : leaves_) refuse_stale(*state->node->leaf());
  const Replica* const own = replica_of(input);
  if (!own) return;
  if (own->parameter->has_other_processes())
    throw AutogradError(
        text("[gradients] input ", index,
             " is a parameter of a model replicated over several processes, and gradients() does not sum over "
             "processes: call backward() and read grad()"));
  for (const Replica& replica : own->parameter->replicas()) {
    if (replica.tensor.is_same(input)) continue;
    const Edge edge = gradient_edge(replica.tensor);
    if (!states_.contains(edge.node.get())) continue;
    captures_[edge.node.get()].push_back({edge.slot, captured_.size()});
    captured_.emplace_back();
    parts_.push_back({index, input.device()});
  }
}

std::vector<Tensor> GraphTask::captured() {
  const GradMode mode(options_.create_graph);
  std::vector<Tensor> sums(captured_.begin(), captured_.end() - std::ptrdiff_t(parts_.size()));
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const Tensor& part = captured_[sums.size() + k];
    Tensor& sum = sums[parts_[k].input];
    if (!part.defined()) continue;
    const Tensor there = part.to(parts_[k].device);
    sum = sum.defined() ? sum.add(there) : there;
  }
  return sums;
}

bool GraphTask::is_only_gradient(const Edge& edge) const {
  return accumulates_ && states_.at(edge.node.get()).producers == 1;
}

std::vector<Device> GraphTask::devices() const {
  std::vector<Device> all;
  const auto add = [&](const Device& device) {
    if (std::ranges::find(all, device) == all.end()) all.push_back(device);
  };
  for (const auto& [node, state] : states_) {
    add(node->stream.device());
    const Replica* const leaf = node->leaf() ? replica_of(*node->leaf()) : nullptr;
    if (!leaf) continue;
    for (const Replica& replica : leaf->parameter->replicas()) add(replica.tensor.device());
  }
  return all;
}

// Runs `step` and keeps its exception in failure_. Call this on the caller's thread, while no other thread runs nodes.
template <class F>
void GraphTask::keep_failure_of(const F& step) {
  try {
    step();
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
}

void GraphTask::run(const std::function<void()>& add_roots) {
  home_ = &device_state(roots_.front().node->stream.device());
  if (!used_.empty()) random_ = current_generator();
  ReadyQueue& queue = queue_of(*roots_.front().node);
  queue.is_draining = true;  // set here, since this thread drains the queue without start(), which sets it
  active_ = 1;
  std::vector<ReadyQueue*> started;
  order_collectives();
  begin_listeners();
  keep_failure_of(add_roots);
  keep_failure_of([&] { fork_streams(); });  // streams must wait for the work of begin_listeners() too
  keep_failure_of([&] {
    for (auto& [node, state] : states_)
      if (state.pending == 0) push(&state, started);
  });
  start(started);
  while (!drain(queue))
    DeviceThread::wait_until([&] {
      const std::scoped_lock lock(mutex_);
      return queue.is_draining || active_ == 0;
    });
  keep_failure_of([&] { join_streams(); });
  if (std::ranges::any_of(queues_, [](const ReadyQueue& q) { return q.random != q.random_start; })) draw(1);
  if (const std::exception_ptr failure = listeners_.end(failure_ != nullptr); failure && !failure_) failure_ = failure;
  if (failure_) std::rethrow_exception(failure_);
}

// Gives the leaves to the listeners in the order in which backward will reach them. The listeners lay out gradient
// buckets in this order. Within a layer the weight, which is its first leaf, comes before the bias. If the bias came
// first, it would fill up the bucket of the leaves before it and delay that bucket.
void GraphTask::begin_listeners() {
  if (!accumulates_) return;
  std::ranges::sort(leaves_, {}, [](const NodeState* v) { return std::pair(~v->last_producer, v->node->sequence); });
  for (const NodeState* const state : leaves_) listeners_.add(*state->node->leaf());
  listeners_.begin(options_.create_graph, !collectives_.empty());
}

void GraphTask::use(const Stream& stream) {
  if (!stream.device().is_cpu() && std::ranges::find(used_, stream) == used_.end()) used_.push_back(stream);
}

// Orders all streams of the backward after the work that the caller has enqueued, such as a change of .grad.
void GraphTask::fork_streams() {
  for (const Stream& stream : used_) {
    const Stream current = current_stream(stream.device());
    if (current != stream) stream.wait(current.record());
  }
}

// Orders work that the caller will enqueue after backward() after the work of the backward.
void GraphTask::join_streams() {
  for (const Stream& stream : used_) {
    const Stream current = current_stream(stream.device());
    if (current != stream) current.wait(stream.record());
  }
}

}  // namespace lockstep::autograd
