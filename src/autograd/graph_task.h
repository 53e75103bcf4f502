// One backward. Every device of the graph has a queue of ready nodes, which one thread at a time drains. The caller's
// thread drains the queue of the first root's device, which also has the nodes of the CPU; the device threads drain the
// other queues.
//
// Gradients that reach a node are added in the order of their producers, device after device. The timing of the queues
// does not change this order, so two runs give gradients of the same bits. Sequence numbers order only producers of one
// device: replicas record operations concurrently, so across devices the numbers depend on timing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/tensor/random.h>

#include "autograd/listeners.h"
#include "autograd/node.h"
#include "core/context.h"
#include "core/ranked_mutex.h"
#include "runtime/registry.h"

namespace lockstep::autograd {

class GraphTask final : public RunningBackward {
 public:
  explicit GraphTask(const BackwardOptions& options) : options_(options), detects_anomaly_(context().detects_anomaly) {}

  /// Discovers the graph of a root. Call this before anything that may fail on a device, so that devices() is complete.
  void reach(const Tensor& root);
  /// Returns the factor by which backward() multiplies the gradients of its roots: 1 for a single process. Call this
  /// after reach() of all roots. Each process's loss is weighted by the process's share of the passes in the graph
  /// (autograd/several_processes.h). A loss that went through no model has the listener's weight_without_pass(). Throws
  /// AutogradError if one gradient would need two shares.
  double weigh_passes();
  /// Sets the gradient of a root. To be called by run()'s argument.
  void add_root(const Tensor& root, const Tensor& gradient);
  /// Call before run(), which then captures the gradients of `inputs` and of their replicas, and accumulates none. Only
  /// the nodes between the roots and these inputs run.
  void capture(std::span<const Tensor> inputs);
  /// add_roots: calls add_root() for each root. If it throws, the listeners are told, as if a node had thrown.
  void run(const std::function<void()>& add_roots);
  /// Returns the gradient of each captured input, summed over its replicas. Call this after run().
  std::vector<Tensor> captured();

  /// The graph's devices, and the devices of all replicas of its leaves.
  std::vector<Device> devices() const;
  bool is_only_gradient(const Edge& edge) const override;
  bool frees_saved() const override { return frees_graph() && !detects_anomaly_; }  // a NaN leaves the node's tensors

 private:
  using Mutex = RankedMutex<LockRank::backward>;
  /// The node that sent a gradient. Gradients are added in the order of their sources.
  struct GradientSource {
    int device;  // -1 for the CPU
    std::uint64_t sequence;

    explicit GradientSource(const Node& node);
    auto operator<=>(const GradientSource&) const = default;
  };
  struct IncomingGradient {
    int slot;
    GradientSource source;
    Stream stream;
    Tensor gradient;
    bool is_weighted = false;  // already multiplied by its weight
  };
  /// A backward's state of a node.
  struct NodeState {
    std::shared_ptr<Node> node;
    int producers = 0;                                // number of edges from other nodes to this one
    int pending = 0;                                  // number of edges whose node has not run
    std::uint64_t last_producer = ~std::uint64_t(0);  // the least sequence of those nodes: backward runs that node last
    bool needed = true;
    bool passes_on = true;                 // false: all nodes to which it sends gradients are unneeded
    double weight = 1;                     // the factor for arriving gradients that are not weighted yet
    bool sends_weighted = false;           // the gradients that it sends are weighted already
    NodeState* next_collective = nullptr;  // the collective that may run only after this one
    std::pmr::vector<IncomingGradient> arrivals;

    explicit NodeState(std::pmr::memory_resource* memory) : arrivals(memory) {}
  };
  struct Later {
    bool operator()(const NodeState* a, const NodeState* b) const;
  };
  struct ReadyQueue {
    DeviceState* device;
    std::priority_queue<NodeState*, std::vector<NodeState*>, Later> nodes;
    bool is_draining = false;
    bool is_waiting = false;  // its thread is in let_others_catch_up()
    // The random generator of hooks on the device thread: its state at the start, and now. Each device has its own
    // sequence, so timing does not change the numbers that hooks draw.
    GeneratorState random_start, random;
  };
  struct ReplicaPart {
    std::size_t input;
    Device device;  // the input's device
  };

  bool frees_graph() const { return !options_.retain_graph && !options_.create_graph; }

  // In graph_task.cpp and graph_weights.cpp: functions that only the caller's thread runs.
  void discover(const std::shared_ptr<Node>& root);
  void note(NodeState& state);
  void capture_replicas(const Tensor& input, std::size_t index);
  void begin_listeners();
  void weigh_each_pass();
  void order_collectives();
  void fork_streams();
  void join_streams();
  void use(const Stream& stream);
  template <class F>
  void keep_failure_of(const F& step);

  // In graph_task_queues.cpp: functions that any thread that drains a queue runs.
  ReadyQueue& queue_of(const Node& node);
  void push(NodeState* state, std::vector<ReadyQueue*>& started);
  void start(const std::vector<ReadyQueue*>& queues);
  bool drain(ReadyQueue& queue);
  void let_others_catch_up(ReadyQueue& queue, std::unique_lock<Mutex>& lock);
  void end(ReadyQueue& queue) noexcept;
  void run_ready(ReadyQueue& queue, std::vector<ReadyQueue*>& started, std::unique_lock<Mutex>& lock);
  std::vector<IncomingGradient> run_node(NodeState& state);
  Gradients sum_arrivals(NodeState& state);
  static void check_for_nan(const Node& node, const Gradients& given, const Gradients& gradients);
  void deliver(NodeState& state, std::vector<IncomingGradient> arrivals, std::vector<ReadyQueue*>& started);

  const BackwardOptions options_;
  const bool detects_anomaly_;  // waits for the device after each node
  bool accumulates_ = true;
  std::vector<Edge> roots_;
  // The memory of the states and their arrivals, freed with the GraphTask. A small graph needs only first_memory_.
  std::array<std::byte, 4096> first_memory_;
  std::pmr::monotonic_buffer_resource memory_{first_memory_.data(), first_memory_.size()};
  std::pmr::unordered_map<Node*, NodeState> states_{&memory_};
  std::vector<NodeState*> leaves_;                                                // leaves that are replicas
  std::vector<NodeState*> boundaries_;                                            // pass boundaries
  std::vector<NodeState*> collectives_;                                           // operations with other processes
  std::unordered_map<Node*, std::vector<std::pair<int, std::size_t>>> captures_;  // slot, index into captured_
  std::vector<Tensor> captured_;  // one for each input, then one for each of parts_
  std::vector<ReplicaPart> parts_;
  Listeners listeners_;
  DeviceState* home_ = nullptr;  // the device whose queue the caller drains
  GeneratorState random_;        // the caller's generator, if the graph uses GPUs

  Mutex mutex_;                   // guards the members below, memory_, and `pending` and `arrivals` of every state
  std::list<ReadyQueue> queues_;  // one for each device
  int active_ = 0;                // number of queues that are draining
  std::exception_ptr failure_;
  std::vector<Stream> used_;
};

}  // namespace lockstep::autograd
