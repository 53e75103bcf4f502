// A CUDA runtime, cuBLASLt, cuDNN and NCCL on the CPU, as far as the backend calls them: cards whose memory is the
// host's, and streams that do nothing before the host asks for it, and then the latest first. What CUDA forbids is kept
// as a complaint. Any thread may call it; one does at a time, but several where each has cards of its own.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

namespace lockstep::fake {

struct Machine {
  int cards = 0;           ///< None: as if there was no driver.
  int driver_version = 0;  ///< Of one that is too old, if it is not 0.
  std::size_t card_bytes = std::size_t(64) << 20;
  std::size_t pinned_bytes = std::size_t(1) << 40;  ///< Of page-locked memory, as far as it can be had.
  bool earliest_first = false;                      ///< Which stream goes on: else the one made last, if it can.
  bool address_only = false;           ///< New memory is addresses alone, of which there are plenty; work is not done.
  bool peers = true;                   ///< A card can reach another's memory.
  bool peers_full = false;             ///< It reaches as many as it can already.
  bool collectives_fail = false;       ///< NCCL reports an error while they are pending; else they end.
  bool collectives_hang = false;       ///< They never end, and nothing reports an error.
  int max_ctas = 0;                    ///< What the last communicator was told.
  bool launch_one_rank = false;        ///< Of collectives: the others are launched when this is taken back.
  int nccl_version = 22809;            ///< As ncclGetVersion says it.
  bool epilogues = true;               ///< cuBLASLt has algorithms that add a bias or apply an activation.
  bool algorithms = true;              ///< It fills in those that it names.
  bool cudnn = true;                   ///< cuDNN can be loaded.
  int cudnn_create = 0;                ///< What cudnnCreate answers.
  bool cudnn_engines = true;           ///< It has an engine that keeps the rules.
  std::map<int, std::string> trapped;  ///< What a kernel threw, by card, which refuses memory and work from then on.

  // What was seen.
  std::set<int> contexts;  ///< The cards that this process has used.
  int allocations = 0;
  int pinned_allocations = 0;
  int aborts = 0;
  int connections = 0;
  int card_switches = 0;    ///< Calls that made a card current.
  int copies = 0;           ///< Copies and fills that were enqueued.
  int products = 0;         ///< Of cuBLASLt.
  int convolutions = 0;     ///< Of cuDNN.
  int epilogues_used = 0;   ///< Products of cuBLASLt that applied an activation.
  int cudnn_plans = 0;      ///< Plans of cuDNN that were made ready.
  int cudnn_engine = -1;    ///< Of the last execution: 0 is not deterministic, 1 rounds float32, 3 does neither.
  int cudnn_layouts = 0;    ///< Of the convolution done last: a bit for each tensor that was channels-last.
  int questions = 0;        ///< To NCCL, whether a communicator has failed.
  bool rank_waits = false;  ///< A rank is launched and another is not: what waits for a card now may wait for ever.
  std::string complaint;    ///< The first.
};

Machine& machine();

/// Held by every call about streams, events or memory. May be taken again by who holds it.
std::unique_lock<std::recursive_mutex> lock();

/// Work of a stream: run when it is ready and all before it has run. Refused after a trap.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, std::function<bool()> ready = nullptr);
/// Work of several streams at once, each of whose earlier work it comes after and whose later work comes after it. To
/// be called where is_capturing() one of them: it may be done many times.
cudaError_t capture(std::span<const cudaStream_t> streams, std::function<void()> run);
bool is_capturing(cudaStream_t stream);
/// Runs one piece of work that is ready, if there is one.
void step();
/// Complains unless the bytes lie in one allocation of the card. -1: in pinned memory; -2: in either, of any card.
void expect_memory(const char* api, const void* memory, std::size_t bytes, int card = -2);
void complain(const std::string& what);
/// Of a call that may have to wait for what runs on a card: complains if a rank runs that waits for another.
void may_wait_for_cards(const char* api);
/// A kernel is launched on the current card, for which CUDA loads it if that has not been done.
void use_kernel(const void* kernel);

}  // namespace lockstep::fake
