// Runs backward: every device of the graph has a lane of ready nodes, which one thread at a time drains. The caller's
// thread drains the lane of the first root (and of the CPU); the others run on their devices' own threads.
//
// Gradients that reach a node are added in the order of their producers, device after device, however the lanes were
// timed, so that two runs give the same bits. Between devices the order of forward operations says nothing: replicas
// make them at once, and where several compute on one device their threads decide.
#include <lockstep/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include <lockstep/runtime/drain.h>
#include <lockstep/tensor/random.h>

#include "autograd/node.h"
#include "core/text.h"
#include "tensor/philox.h"

namespace lockstep {
namespace {

using autograd::Edge;
using autograd::Gradients;
using autograd::Node;
using autograd::SinkLeaves;

struct Producer {
  int device;  // -1 for the CPU
  std::uint64_t sequence;

  explicit Producer(const Node& node)
      : device(node.stream.device().is_cpu() ? -1 : node.stream.device().index()), sequence(node.sequence) {}
  auto operator<=>(const Producer&) const = default;
};

struct Arrival {
  int slot;
  Producer producer;
  Stream stream;
  Tensor gradient;
};

constexpr std::uint64_t kRoot = ~std::uint64_t(0);

// What one backward keeps for a node.
struct Visit {
  std::shared_ptr<Node> node;
  int producers = 0;                    // of its gradients
  int pending = 0;                      // of those, how many have not run
  std::uint64_t last_producer = kRoot;  // of them, the one that backward comes to last: the earliest of the forward
  bool needed = true;
  bool passes_on = true;  // some node that its gradients reach is needed
  std::vector<Arrival> arrivals;
};

// The latest operation first; but leaves before all, so that their gradients are there as early as can be. Of a layer's
// leaves the earliest, its weight: were its bias first, it would take the last room in a bucket of the layers before.
struct Later {
  bool operator()(const Visit* a, const Visit* b) const {
    const auto rank = [](const Visit* v) {
      const bool leaf = v->node->edges.empty();
      return std::pair(leaf, leaf ? ~v->node->sequence : v->node->sequence);
    };
    return rank(a) < rank(b);
  }
};

struct Lane {
  DeviceState* device;
  std::priority_queue<Visit*, std::vector<Visit*>, Later> ready;
  bool draining = false;
  // What hooks draw on the device's thread: a sequence of its own, so that it does not matter who draws first.
  Generator random_start, random;
};

class Backward final : public autograd::Pass {
 public:
  Backward(const BackwardOptions& options) : options_(options) {}

  /// Before anything that may fail on a device: devices() knows all of the graph's then.
  void reach(const Tensor& root) { discover(autograd::gradient_edge(root).node); }

  /// After reach(root).
  void add_root(const Tensor& root, const Tensor& gradient) {
    const Edge edge = autograd::gradient_edge(root);
    roots_.push_back(edge);
    // The caller's work comes before that of the node's stream, as fork_streams() orders it.
    visits_.at(edge.node.get()).arrivals.push_back({edge.slot, Producer(*edge.node), edge.node->stream, gradient});
  }

  // Gradients of these are kept and not accumulated; only nodes on the way to them run.
  void capture(std::span<const Tensor> inputs) {
    captured_.resize(inputs.size());
    std::vector<std::pair<std::uint64_t, Visit*>> order;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      impl_of("gradients", inputs[i]);
      const Edge edge = autograd::gradient_edge(inputs[i]);
      if (!edge.node)
        throw AutogradError(text("[gradients] expected inputs that require a gradient, got one that does not: ", i));
      captures_[edge.node.get()].push_back({edge.slot, i});
      capture_replicas(inputs[i], i);
    }
    for (auto& [node, visit] : visits_) {
      visit.needed = captures_.contains(node);
      visit.passes_on = false;
      if (!node->edges.empty()) order.emplace_back(node->sequence, &visit);
    }
    std::sort(order.begin(), order.end());  // producers of the forward first; leaves, which are made late, are done
    for (auto& [sequence, visit] : order) {
      for (const Edge& edge : visit->node->edges)
        if (edge.node && visits_.at(edge.node.get()).needed) visit->needed = visit->passes_on = true;
    }
    accumulate_ = false;
  }

  // After run(): by input, summed over its replicas.
  std::vector<Tensor> captured() {
    const GradMode mode(options_.create_graph);
    std::vector<Tensor> sums(captured_.begin(), captured_.end() - std::ptrdiff_t(parts_.size()));
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const Tensor& part = captured_[sums.size() + k];
      Tensor& sum = sums[parts_[k].input];
      if (!part.defined()) continue;
      const Tensor there = part.to(parts_[k].device);
      sum = sum.defined() ? sum.clone().add_(there) : there;
    }
    return sums;
  }

  bool brings_all(const Edge& edge) const override { return accumulate_ && visits_.at(edge.node.get()).producers == 1; }

  /// Where it ran, and those that sum gradients with these.
  std::vector<Device> devices() const {
    std::vector<Device> all;
    const auto add = [&](const Device& device) {
      if (std::ranges::find(all, device) == all.end()) all.push_back(device);
    };
    for (const auto& [node, visit] : visits_) {
      add(node->stream.device());
      const autograd::Meta* const meta = node->leaf() ? autograd::meta_of(*node->leaf()) : nullptr;
      if (const auto sink = meta ? meta->sink.lock() : nullptr) std::ranges::for_each(sink->devices_used(), add);
    }
    return all;
  }

  void run() {
    DeviceState& home = device_state(roots_.front().node->stream.device());
    home_ = &home;
    std::vector<Lane*> started;
    Lane& lane = lanes_[home_];
    lane.device = home_;
    const std::vector<SinkLeaves> sinks = begin_sinks();
    keep_failure_of([&] { fork_streams(); });  // after what the sinks enqueued
    keep_failure_of([&] {
      const std::scoped_lock lock(mutex_);
      for (auto& [node, visit] : visits_)
        if (visit.pending == 0) push(&visit, started);
    });
    start(started);
    for (bool running = true; running;) {
      drain(lane);
      DeviceThread::wait_until([&] {
        const std::scoped_lock lock(mutex_);
        running = active_ != 0;
        return lane.draining || !running;
      });
    }
    keep_failure_of([&] { join_streams(); });
    if (std::ranges::any_of(lanes_, [](const auto& l) { return l.second.random != l.second.random_start; })) draw(1);
    for (const auto& [sink, leaves] : sinks) keep_failure_of([&] { sink->end(); });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // On the caller's thread, while no other one runs.
  template <class F>
  void keep_failure_of(const F& step) {
    try {
      step();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void capture_replicas(const Tensor& input, std::size_t index) {
    const autograd::Meta* const meta = autograd::meta_of(input);
    if (!meta->was_replicated) return;
    for (const auto& [node, visit] : visits_) refuse_retired(*node);
    for (const Tensor& replica : meta->replicas) {
      const Edge edge = autograd::gradient_edge(replica);
      if (!visits_.contains(edge.node.get())) continue;
      captures_[edge.node.get()].push_back({edge.slot, captured_.size()});
      captured_.emplace_back();
      parts_.push_back({index, input.device()});
    }
  }

  static void refuse_retired(const Node& node) {
    if (node.leaf() && autograd::meta_of(*node.leaf())->retired)
      throw AutogradError(
          "[backward] expected a graph of replicas that sum their gradients, got one of replicas that are gone: of a "
          "DataParallel that has made others since or was destroyed");
  }

  void discover(const std::shared_ptr<Node>& root) {
    std::vector<Visit*> stack;
    const auto visit = [&](const std::shared_ptr<Node>& node) -> Visit& {
      auto [place, fresh] = visits_.try_emplace(node.get());
      if (fresh) {
        place->second.node = node;
        use(node->stream);
        stack.push_back(&place->second);
      }
      return place->second;
    };
    visit(root);
    while (!stack.empty()) {
      Visit* const current = stack.back();
      stack.pop_back();
      for (const Edge& edge : current->node->edges)
        if (edge.node) {
          Visit& next = visit(edge.node);
          next.producers = ++next.pending;
          next.last_producer = std::min(next.last_producer, current->node->sequence);
        }
    }
  }

  // Tells who sums gradients of several leaves which of them this backward reaches, in which order.
  std::vector<SinkLeaves> begin_sinks() {
    std::vector<SinkLeaves> sinks;
    if (!accumulate_) return sinks;
    std::vector<const Visit*> leaves;
    for (const auto& [node, visit] : visits_)
      if (node->leaf()) {
        refuse_retired(*node);
        leaves.push_back(&visit);
      }
    std::ranges::sort(leaves, {}, [](const Visit* v) { return std::pair(~v->last_producer, v->node->sequence); });
    for (const Visit* const visit : leaves) autograd::add_leaf(sinks, *visit->node->leaf());
    std::size_t begun = 0;
    try {
      for (; begun < sinks.size(); ++begun) sinks[begun].sink->begin(sinks[begun].leaves);
    } catch (...) {
      failure_ = std::current_exception();
      while (begun-- > 0) keep_failure_of([&] { sinks[begun].sink->end(); });
      std::rethrow_exception(failure_);
    }
    return sinks;
  }

  Lane& lane_of(const Node& node) {
    DeviceState* device = &device_state(node.stream.device());
    if (device->device.is_cpu()) device = home_;  // the CPU computes on the thread that asks
    // Written once: start() reads it without the lock.
    const auto [place, fresh] = lanes_.try_emplace(device);
    if (fresh) {
      const auto number = std::uint64_t(Producer(node).device) + 2;
      place->second.device = device;
      place->second.random = place->second.random_start =
          sequence_of({random_.seed, random_.stream - number * 0x9E3779B97F4A7C15u, random_.offset});
    }
    return place->second;
  }

  // Holding the lock. Lanes that got their first work are to be started after it is let go.
  void push(Visit* visit, std::vector<Lane*>& started) {
    Lane& lane = lane_of(*visit->node);
    lane.ready.push(visit);
    if (lane.draining) return;
    started.push_back(&lane);
    lane.draining = true;
    ++active_;
  }

  void start(const std::vector<Lane*>& lanes) {
    for (Lane* lane : lanes)
      if (lane->device == home_) {
        DeviceThread::notify();
      } else {
        try {
          lane->device->thread.submit([this, lane] { drain(*lane); });
        } catch (...) {  // no thread could be started: this one ends the lane
          const std::scoped_lock lock(mutex_);
          if (!failure_) failure_ = std::current_exception();
          end(*lane);
        }
      }
  }

  // Does not throw: memory may fail outside of nodes too.
  void drain(Lane& lane) {
    std::vector<Lane*> started;
    std::unique_lock lock(mutex_);
    try {
      run_ready(lane, started, lock);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      if (!failure_) failure_ = std::current_exception();
      for (Lane* const other : started) end(*other);
    }
    end(lane);
    const bool last = active_ == 0;
    lock.unlock();
    if (last) DeviceThread::notify();
  }

  // Holding the lock.
  void end(Lane& lane) noexcept {
    if (!std::exchange(lane.draining, false)) return;
    --active_;
  }

  void run_ready(Lane& lane, std::vector<Lane*>& started, std::unique_lock<std::mutex>& lock) {
    const GradMode mode(options_.create_graph);
    std::optional<GeneratorGuard> own_numbers;
    if (lane.device != home_) own_numbers.emplace(lane.random);
    while (!lane.ready.empty() && !failure_) {
      Visit* const visit = lane.ready.top();
      lane.ready.pop();
      lock.unlock();
      std::vector<Arrival> arrivals;
      std::exception_ptr failure;
      try {
        if (visit->needed) arrivals = run_node(*visit);
      } catch (Error& error) {
        error.add_context(text("in backward of ", visit->node->op));
        failure = std::current_exception();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      deliver(*visit, std::move(arrivals), started);
      if (started.empty()) continue;
      lock.unlock();
      start(started);
      started.clear();
      lock.lock();
    }
  }

  // What goes along each of the node's edges.
  std::vector<Arrival> run_node(Visit& visit) {
    Node& node = *visit.node;
    const StreamGuard guard(node.stream);
    const autograd::RunningNode running(visit.node, *this);
    Gradients inputs = gather(visit);
    node.hooks.call_each([&](const auto& hook) {
      if (Tensor& input = inputs[std::size_t(hook.first)]; input.defined())
        input = autograd::hooked(node.op, hook.second, input);
    });
    if (const auto place = captures_.find(&node); place != captures_.end()) {
      for (const auto& [slot, index] : place->second) captured_[index] = inputs[std::size_t(slot)];
      if (!visit.passes_on) return {};
    }
    const bool any = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined(); });
    if ((!any && !node.leaf()) || (!accumulate_ && node.edges.empty())) return {};
    Gradients gradients = node.backward(inputs);
    if (!options_.retain_graph && !options_.create_graph) node.release();
    std::vector<Arrival> arrivals;
    arrivals.reserve(gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Stream made_on = gradients[i].defined() ? current_stream(gradients[i].device()) : node.stream;
      arrivals.push_back({node.edges[i].slot, Producer(node), made_on, std::move(gradients[i])});
    }
    return arrivals;
  }

  // The sum of what arrived in each slot, on the node's stream; where an output was on another device than the first,
  // on this thread's current stream there.
  Gradients gather(Visit& visit) {
    Gradients sums(std::size_t(visit.node->outputs));
    std::vector<Arrival> arrivals = std::move(visit.arrivals);
    if (arrivals.size() > 1)
      std::stable_sort(arrivals.begin(), arrivals.end(),
                       [](const Arrival& a, const Arrival& b) { return a.producer > b.producer; });
    std::vector<bool> owned(sums.size());
    for (Arrival& arrival : arrivals) {
      const Device there = arrival.gradient.device();
      const Stream here = there == visit.node->stream.device() ? visit.node->stream : current_stream(there);
      if (arrival.stream != here && arrival.stream.device() == there) here.wait(arrival.stream.record());
      const auto slot = std::size_t(arrival.slot);
      Tensor& sum = sums[slot];
      if (!sum.defined()) {
        sum = std::move(arrival.gradient);
      } else if (owned[slot] && !options_.create_graph) {
        sum.add_(arrival.gradient);
      } else {
        sum = sum.clone().add_(arrival.gradient);
        owned[slot] = true;
      }
    }
    return sums;
  }

  // Holding the lock.
  void deliver(Visit& visit, std::vector<Arrival> arrivals, std::vector<Lane*>& started) {
    const std::vector<Edge>& edges = visit.node->edges;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i].node) continue;
      Visit& next = visits_.at(edges[i].node.get());
      if (i < arrivals.size() && arrivals[i].gradient.defined()) {
        use(arrivals[i].stream);
        next.arrivals.push_back(std::move(arrivals[i]));
      }
      if (--next.pending == 0) push(&next, started);
    }
  }

  void use(const Stream& stream) {
    if (!stream.device().is_cpu() && std::find(used_.begin(), used_.end(), stream) == used_.end())
      used_.push_back(stream);
  }

  // What the caller has enqueued, such as a change of .grad, comes before backward, on whichever streams that runs...
  void fork_streams() {
    for (const Stream& stream : used_) {
      const Stream current = current_stream(stream.device());
      if (current != stream) stream.wait(current.record());
    }
  }

  // ... and what the caller enqueues next comes after it.
  void join_streams() {
    for (const Stream& stream : used_) {
      const Stream current = current_stream(stream.device());
      if (current != stream) current.wait(stream.record());
    }
  }

  const BackwardOptions options_;
  bool accumulate_ = true;
  std::vector<Edge> roots_;
  std::unordered_map<Node*, Visit> visits_;
  struct Part {  // of a replica
    std::size_t input;
    Device device;  // of the input
  };
  std::unordered_map<Node*, std::vector<std::pair<int, std::size_t>>> captures_;  // slots, and where in captured_
  std::vector<Tensor> captured_;                                                  // by input, and then by part
  std::vector<Part> parts_;
  DeviceState* home_ = nullptr;
  const Generator random_ = current_generator();  // the caller's

  std::mutex mutex_;  // guards the following, and `pending` and `arrivals` of every visit
  std::unordered_map<DeviceState*, Lane> lanes_;
  int active_ = 0;  // lanes with work
  std::exception_ptr failure_;
  std::vector<Stream> used_;
};

void check_roots(const char* op, std::span<const Tensor> roots, std::span<const Tensor> gradients) {
  if (roots.empty()) throw InvalidArgument(text("[", op, "] expected at least one root, got none"));
  if (!gradients.empty() && gradients.size() != roots.size())
    throw InvalidArgument(
        text("[", op, "] expected one gradient for each of ", roots.size(), " roots, got ", gradients.size()));
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    impl_of(op, root);
    if (!autograd::needs_grad(root))
      throw AutogradError(text("[", op, "] expected a root that requires a gradient, got one of shape ", root.sizes(),
                               " that was computed from none"));
    const bool given = !gradients.empty() && gradients[i].defined();
    if (!given && root.numel() != 1)
      throw ShapeError(text("[", op, "] expected a gradient for a root of shape ", root.sizes(), ", got none"));
    if (!given) continue;
    check_same_device(op, root, gradients[i]);
    if (gradients[i].sizes() != root.sizes())
      throw ShapeError(text("[", op, "] expected a gradient of shape ", root.sizes(), ", got ", gradients[i].sizes()));
    if (gradients[i].dtype() != root.dtype())
      throw DTypeError(text("[", op, "] expected a gradient of ", root.dtype(), ", got ", gradients[i].dtype()));
  }
}

void add_roots(Backward& backward, std::span<const Tensor> roots, std::span<const Tensor> gradients) {
  for (const Tensor& root : roots) backward.reach(root);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    Tensor seed = gradients.empty() ? Tensor() : gradients[i];
    if (!seed.defined()) {
      seed = make_tensor(*roots[i].impl()->storage->device, roots[i].sizes(), roots[i].dtype());
      seed.fill_(1);
    }
    backward.add_root(roots[i], seed);
  }
}

}  // namespace

void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients, const BackwardOptions& options) {
  check_roots("backward", roots, gradients);
  Backward pass(options);
  try {
    add_roots(pass, roots, gradients);
    pass.run();
  } catch (...) {
    detail::rethrow_drained(pass.devices());
  }
}

std::vector<Tensor> gradients(std::span<const Tensor> roots, std::span<const Tensor> inputs,
                              std::span<const Tensor> seeds, const BackwardOptions& options) {
  check_roots("gradients", roots, seeds);
  Backward pass(options);
  try {
    add_roots(pass, roots, seeds);
    pass.capture(inputs);
    pass.run();
    return pass.captured();
  } catch (...) {
    detail::rethrow_drained(pass.devices());
  }
}

}  // namespace lockstep
