// A backward's ready queues, which the caller's thread and the device threads drain concurrently.
#include <algorithm>
#include <optional>
#include <utility>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>

#include "autograd/graph_task.h"
#include "core/text.h"
#include "tensor/philox.h"
#include "tensor/transient_memory.h"

namespace lockstep::autograd {

// A queue runs leaves first, in order of creation, so that their gradients are ready as early as possible. Then it runs
// operations, the last recorded one first.
bool GraphTask::Later::operator()(const NodeState* a, const NodeState* b) const {
  const auto rank = [](const NodeState* v) {
    const bool leaf = v->node->edges.empty();
    return std::pair(leaf, leaf ? ~v->node->sequence : v->node->sequence);
  };
  return rank(a) < rank(b);
}

GraphTask::ReadyQueue& GraphTask::queue_of(const Node& node) {
  DeviceState* device = &device_state(node.stream.device());
  if (device->device.is_cpu()) device = home_;  // CPU nodes run on the caller's thread
  if (const auto found = std::ranges::find(queues_, device, &ReadyQueue::device); found != queues_.end()) return *found;
  ReadyQueue& queue = queues_.emplace_back();
  queue.device = device;  // written once: start() reads it without the lock
  if (device != home_) {
    const auto number = std::uint64_t(GradientSource(node).device) + 2;
    queue.random = queue.random_start =
        sequence_of({random_.seed, random_.stream - number * 0x9E3779B97F4A7C15u, random_.offset});
  }
  return queue;
}

// The caller holds the lock, or has not called start() yet. Queues that must be started after the lock is released are
// added to `started`.
void GraphTask::push(NodeState* state, std::vector<ReadyQueue*>& started) {
  ReadyQueue& queue = queue_of(*state->node);
  queue.nodes.push(state);
  if (queue.is_draining) return;
  started.push_back(&queue);
  queue.is_draining = true;
  ++active_;
}

void GraphTask::start(const std::vector<ReadyQueue*>& queues) {
  for (ReadyQueue* queue : queues)
    if (queue->device == home_) {
      DeviceThread::notify();
    } else {
      try {
        queue->device->thread.submit([this, queue] { drain(*queue); });
      } catch (...) {  // the device thread could not be started, so it cannot end the queue
        const std::scoped_lock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        end(*queue);
      }
    }
}

// Runs the ready nodes of a queue. Returns true if no queue is draining any more. Keeps every exception in failure_,
// also that of an allocation outside of nodes, and throws none.
bool GraphTask::drain(ReadyQueue& queue) {
  std::vector<ReadyQueue*> started;
  std::unique_lock lock(mutex_);
  try {
    run_ready(queue, started, lock);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    if (!failure_) failure_ = std::current_exception();
    for (ReadyQueue* const other : started) end(*other);
  }
  end(queue);
  const bool last = active_ == 0,
             wakes = (last && queue.device != home_) || std::ranges::any_of(queues_, &ReadyQueue::is_waiting);
  lock.unlock();  // from here on backward() may return on another thread and destroy *this
  if (wakes) DeviceThread::notify();
  return last;
}

// While the listeners say that this device is ahead (Ahead), waits, so that its gradients occupy less memory. Goes on
// if the threads of all devices wait for other devices, because those may need a gradient from this one. The caller
// holds the lock.
void GraphTask::let_others_catch_up(ReadyQueue& queue, std::unique_lock<Mutex>& lock) {
  const auto ahead = [this](const ReadyQueue& each) { return listeners_.is_ahead(each.device->device); };
  queue.is_waiting = true;
  lock.unlock();
  DeviceThread::wait_until([&] {
    const std::scoped_lock held(mutex_);
    if (failure_ || ahead(queue) == Ahead::none) return true;
    return std::ranges::all_of(queues_, [&](const ReadyQueue& each) {
      return !each.is_draining || (each.is_waiting && ahead(each) == Ahead::devices);
    });
  });
  lock.lock();
  queue.is_waiting = false;
}

// Marks the queue as drained. The caller holds the lock.
void GraphTask::end(ReadyQueue& queue) noexcept {
  if (!std::exchange(queue.is_draining, false)) return;
  --active_;
}

void GraphTask::run_ready(ReadyQueue& queue, std::vector<ReadyQueue*>& started, std::unique_lock<Mutex>& lock) {
  const GradMode mode(options_.create_graph);
  const NoAutocast dtypes_of_forward;
  std::optional<GeneratorGuard> own_numbers;
  if (queue.device != home_) own_numbers.emplace(queue.random);
  while (!queue.nodes.empty() && !failure_) {
    NodeState* const state = queue.nodes.top();
    queue.nodes.pop();
    lock.unlock();
    std::vector<IncomingGradient> arrivals;
    std::exception_ptr failure;
    try {
      if (state->needed) arrivals = run_node(*state);
    } catch (Error& error) {
      error.add_context(text("in backward of ", state->node->op));
      failure = std::current_exception();
    } catch (...) {
      failure = std::current_exception();
    }
    const bool is_ahead = listeners_.is_ahead(queue.device->device) != Ahead::none;
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    deliver(*state, std::move(arrivals), started);
    if (!started.empty()) {
      lock.unlock();
      start(started);
      started.clear();
      lock.lock();
    }
    if (is_ahead) let_others_catch_up(queue, lock);
  }
}

// Runs the node; returns the gradients for its edges.
std::vector<GraphTask::IncomingGradient> GraphTask::run_node(NodeState& state) {
  Node& node = *state.node;
  const StreamGuard guard(node.stream);
  const OperationEnd end;  // also if the node fails between its operations
  const RunningNode running(state.node, *this);
  Gradients inputs = sum_arrivals(state);
  node.hooks.call_each([&](const auto& hook) {
    if (Tensor& input = inputs[std::size_t(hook.first)]; input.defined())
      input = apply_hook(node.op, hook.second, input);
  });
  if (const auto place = captures_.find(&node); place != captures_.end()) {
    for (const auto& [slot, index] : place->second) captured_[index] = inputs[std::size_t(slot)];
    if (!state.passes_on) return {};
  }
  const bool any = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined(); });
  if ((!any && !node.leaf()) || (!accumulates_ && node.edges.empty())) return {};
  Gradients gradients = node.backward(inputs);
  if (detects_anomaly_) check_for_nan(node, inputs, gradients);
  if (frees_graph()) node.release();
  std::vector<IncomingGradient> arrivals;
  arrivals.reserve(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Stream made_on = gradients[i].defined() ? current_stream(gradients[i].device()) : node.stream;
    arrivals.push_back(
        {node.edges[i].slot, GradientSource(node), made_on, std::move(gradients[i]), state.sends_weighted});
  }
  return arrivals;
}

// Throws AutogradError if a gradient that the node's backward returned has a NaN. `given`: the gradients that the
// backward took.
void GraphTask::check_for_nan(const Node& node, const Gradients& given, const Gradients& gradients) {
  const NoGrad guard;
  const auto has_nan = [](const Tensor& g) { return g.defined() && g.isnan().any().item<bool>(); };
  const auto found = std::ranges::find_if(gradients, has_nan);
  if (found == gradients.end()) return;
  const bool came_in = std::ranges::any_of(given, has_nan);
  throw AutogradError(text("[backward] expected gradients without NaN, got one of shape ", found->sizes(), " from ",
                           node.name(), " for input ", found - gradients.begin(), " of the operation ", node.op,
                           came_in ? ": the gradient of its output has NaN already, from a hook or from the caller"
                                   : ": check the inputs of that operation in forward"));
}

// Sums the gradients that arrived in each slot. The sum runs on the node's stream, or, if the gradient is on another
// device than the node, on this thread's current stream of that device.
Gradients GraphTask::sum_arrivals(NodeState& state) {
  Gradients sums(std::size_t(state.node->outputs));
  std::pmr::vector<IncomingGradient> arrivals = std::move(state.arrivals);
  std::vector<bool> owned;
  if (arrivals.size() > 1) {
    std::stable_sort(arrivals.begin(), arrivals.end(),
                     [](const IncomingGradient& a, const IncomingGradient& b) { return a.source > b.source; });
    owned.resize(sums.size());
  }
  for (IncomingGradient& arrival : arrivals) {
    const Device there = arrival.gradient.device();
    const Stream here = there == state.node->stream.device() ? state.node->stream : current_stream(there);
    if (arrival.stream != here && arrival.stream.device() == there) here.wait(arrival.stream.record());
    if (state.weight != 1 && !arrival.is_weighted) arrival.gradient = arrival.gradient.mul(state.weight);
    const auto slot = std::size_t(arrival.slot);
    Tensor& sum = sums[slot];
    if (!sum.defined()) {
      sum = std::move(arrival.gradient);
    } else if (owned[slot] && !options_.create_graph) {
      sum.add_(arrival.gradient);
    } else {
      sum = sum.add(arrival.gradient);
      owned[slot] = true;
    }
  }
  return sums;
}

// Hands the node's gradients to its edges, and pushes nodes that became ready. The caller holds the lock.
void GraphTask::deliver(NodeState& state, std::vector<IncomingGradient> arrivals, std::vector<ReadyQueue*>& started) {
  const std::vector<Edge>& edges = state.node->edges;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i].node) continue;
    NodeState& next = states_.at(edges[i].node.get());
    if (i < arrivals.size() && arrivals[i].gradient.defined()) {
      use(arrivals[i].stream);
      next.arrivals.push_back(std::move(arrivals[i]));
    }
    if (--next.pending == 0) push(&next, started);
  }
  if (state.next_collective && --state.next_collective->pending == 0) push(state.next_collective, started);
}

}  // namespace lockstep::autograd
