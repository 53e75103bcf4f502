// One backward. Every device of the graph has a queue of ready nodes, which one thread at a time drains. The caller's
// thread drains the queue of the first root's device, and runs what is on the CPU; the others are drained on their
// devices' own threads.
//
// Gradients that reach a node are added in the order of their producers, device after device, however the queues were
// timed, so that two runs give the same bits. Between devices the order of forward operations says nothing: replicas
// make them at once, and where several compute on one device their threads decide.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
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

  /// Before anything that may fail on a device: devices() knows all of the graph's then.
  void reach(const Tensor& root);
  /// After reach() of all roots: what the gradients of the roots of backward() are to be multiplied by, 1 for a process
  /// alone. Each process's loss counts by its share of the passes in the graph (autograd/several_processes.h); a loss
  /// that went through no model counts alike in all. Throws AutogradError where one gradient would need two shares.
  double weigh_passes();
  /// After reach(root).
  void add_root(const Tensor& root, const Tensor& gradient);
  /// Before run(): gradients of these are kept and not accumulated; only nodes on the way to them run. Replicas of an
  /// input count as the input.
  void capture(std::span<const Tensor> inputs);
  void run();
  /// After run(): by captured input, summed over its replicas.
  std::vector<Tensor> captured();

  /// Where it ran, and those that sum gradients with these.
  std::vector<Device> devices() const;
  bool brings_all(const Edge& edge) const override;

 private:
  using Mutex = RankedMutex<LockRank::backward>;
  /// Whose gradient it is: what is added first.
  struct Producer {
    int device;  // -1 for the CPU
    std::uint64_t sequence;

    explicit Producer(const Node& node);
    auto operator<=>(const Producer&) const = default;
  };
  struct Arrival {
    int slot;
    Producer producer;
    Stream stream;
    Tensor gradient;
    bool counts = false;  // weighted already
  };
  /// What a backward keeps for a node.
  struct Visit {
    std::shared_ptr<Node> node;
    int producers = 0;                                // of its gradients
    int pending = 0;                                  // of those, how many have not run
    std::uint64_t last_producer = ~std::uint64_t(0);  // of them, the earliest of the forward: backward's last
    bool needed = true;
    bool passes_on = true;             // some node that its gradients reach is needed
    double weight = 1;                 // of what arrives and does not count yet
    bool counts = false;               // what it brings is weighted
    Visit* next_collective = nullptr;  // which waits for this one
    std::pmr::vector<Arrival> arrivals;

    explicit Visit(std::pmr::memory_resource* memory) : arrivals(memory) {}
  };
  struct Later {
    bool operator()(const Visit* a, const Visit* b) const;
  };
  struct ReadyQueue {
    DeviceState* device;
    std::priority_queue<Visit*, std::vector<Visit*>, Later> nodes;
    bool is_draining = false;
    // What hooks draw on the device's thread: a sequence of its own, so that it does not matter who draws first.
    GeneratorState random_start, random;
  };
  struct ReplicaPart {
    std::size_t input;
    Device device;  // of the input
  };

  // graph_task.cpp and graph_weights.cpp: the graph, and what the caller's thread does.
  void discover(const std::shared_ptr<Node>& root);
  void note(Visit& visit);
  void capture_replicas(const Tensor& input, std::size_t index);
  void begin_listeners();
  void weigh_each_pass();
  void order_collectives();
  void fork_streams();
  void join_streams();
  void use(const Stream& stream);
  template <class F>
  void keep_failure_of(const F& step);

  // graph_task_queues.cpp: what every thread does.
  ReadyQueue& queue_of(const Node& node);
  void push(Visit* visit, std::vector<ReadyQueue*>& started);
  void start(const std::vector<ReadyQueue*>& queues);
  bool drain(ReadyQueue& queue);
  void end(ReadyQueue& queue) noexcept;
  void run_ready(ReadyQueue& queue, std::vector<ReadyQueue*>& started, std::unique_lock<Mutex>& lock);
  std::vector<Arrival> run_node(Visit& visit);
  Gradients sum_arrivals(Visit& visit);
  static void check_for_nan(const Node& node, const Gradients& given, const Gradients& gradients);
  void deliver(Visit& visit, std::vector<Arrival> arrivals, std::vector<ReadyQueue*>& started);

  const BackwardOptions options_;
  const bool detects_anomaly_;  // waits after each node
  bool accumulates_ = true;
  std::vector<Edge> roots_;
  // Of the visits and their lists of what arrives, all given back at the end. A small graph needs the first alone.
  std::array<std::byte, 4096> first_memory_;
  std::pmr::monotonic_buffer_resource memory_{first_memory_.data(), first_memory_.size()};
  std::pmr::unordered_map<Node*, Visit> visits_{&memory_};
  std::vector<Visit*> leaves_;                                                    // that are replicas
  std::vector<Visit*> boundaries_;                                                // of passes
  std::vector<Visit*> collectives_;                                               // with other processes
  std::unordered_map<Node*, std::vector<std::pair<int, std::size_t>>> captures_;  // slots, and where in captured_
  std::vector<Tensor> captured_;                                                  // by input, and then by part
  std::vector<ReplicaPart> parts_;
  Listeners listeners_;
  DeviceState* home_ = nullptr;  // whose queue the caller drains
  GeneratorState random_;        // the caller's, where the graph uses GPUs

  Mutex mutex_;                   // guards the following and memory_, and `pending` and `arrivals` of every visit
  std::list<ReadyQueue> queues_;  // one for each device
  int active_ = 0;                // queues with work
  std::exception_ptr failure_;
  std::vector<Stream> used_;
};

}  // namespace lockstep::autograd
