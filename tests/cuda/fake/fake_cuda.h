// CUDA runtime, cuBLASLt, cuDNN and NCCL on the CPU, as far as the backend calls them. Cards use host memory. Streams
// do nothing until the host asks for a result, and then the newest stream runs first. Violations of CUDA's rules are
// recorded as a complaint. Any thread may call it, one at a time; several at a time if each has cards of its own.
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
  int cards = 0;           ///< 0: as if there was no driver.
  int driver_version = 0;  ///< If not 0: a version that is too old.
  std::size_t card_bytes = std::size_t(64) << 20;
  int capability = 9;                               ///< The first number of the cards' compute capability.
  std::size_t pinned_bytes = std::size_t(1) << 40;  ///< Limit of page-locked memory.
  bool earliest_first = false;                      ///< The oldest ready stream runs first; else the newest.
  bool address_only = false;                        ///< New memory is only addresses, without limit; no work runs.
  bool peers = true;                                ///< Cards have access to their peers' memory.
  bool peers_full = false;                          ///< A card already has the maximum number of peers.
  bool collectives_fail = false;                    ///< NCCL reports an error while they are pending; else they end.
  bool collectives_hang = false;                    ///< They never end, and nothing reports an error.
  int collectives_at_once = 0;                      ///< The most that a card runs at once; 0: any number.
  int max_ctas = 0;                                 ///< The option of the last communicator.
  bool launch_one_rank = false;        ///< Launches one rank of a collective; the others follow when this is reset.
  int nccl_version = 22809;            ///< The answer of ncclGetVersion.
  bool epilogues = true;               ///< cuBLASLt has algorithms with a bias or an activation.
  bool algorithms = true;              ///< cuBLASLt fills in the algorithms that it names.
  bool cudnn = true;                   ///< cuDNN can be loaded.
  int cudnn_create = 0;                ///< The result of cudnnCreate.
  bool cudnn_engines = true;           ///< cuDNN has an engine that keeps the rules.
  bool events = true;                  ///< Events can be made.
  std::function<void()> at_question;   ///< Called, with no lock held, when a stream or an NCCL communicator is asked.
  std::map<int, std::string> trapped;  ///< By card, the exception of a kernel: the card then refuses memory and work.

  // Observations.
  std::set<int> contexts;  ///< The cards with a context of this process.
  int allocations = 0;
  int pinned_allocations = 0;
  int aborts = 0;
  int connections = 0;
  int card_switches = 0;    ///< Calls that changed the current card.
  int copies = 0;           ///< Copies and fills enqueued.
  int products = 0;         ///< Calls of cublasLtMatmul.
  int convolutions = 0;     ///< Executions of cuDNN.
  int epilogues_used = 0;   ///< Products of cuBLASLt with an activation.
  int cudnn_plans = 0;      ///< Plans of cuDNN that were finalized.
  int cudnn_engine = -1;    ///< The last one used: 0 is nondeterministic, 1 rounds float32, 3 does neither.
  int cudnn_layouts = 0;    ///< The last convolution: a bit for each channels-last tensor.
  int questions = 0;        ///< Queries of NCCL communicators for errors.
  bool rank_waits = false;  ///< One rank is launched and another is not: a call that waits for a card may hang.
  std::string complaint;    ///< The first complaint.
};

Machine& machine();

/// Held by every call about streams, events or memory. Recursive.
std::unique_lock<std::recursive_mutex> lock();

/// Enqueues work that runs when it is ready and all earlier work of the stream has run. Fails after a trap.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, std::function<bool()> ready = nullptr);
/// Captures work of several streams at once: after their earlier work, and before their later work. One of them must be
/// capturing. `run` may be called many times.
/// A launch waits until `ready`.
cudaError_t capture(std::span<const cudaStream_t> streams, std::function<void()> run,
                    std::function<bool()> ready = nullptr);
bool is_capturing(cudaStream_t stream);
/// Runs one piece of work that is ready, if there is one.
void step();
/// Complains unless the bytes are in one allocation of the card. -1: of pinned memory; -2: of pinned memory or any
/// card.
void expect_memory(const char* api, const void* memory, std::size_t bytes, int card = -2);
void complain(const std::string& what);
/// Called by functions that may wait for a card's work: complains if a launched rank waits for one that is not
/// launched.
void may_wait_for_cards(const char* api);
/// Launches a kernel on the current card, and loads it there at its first launch, as CUDA does.
void use_kernel(const void* kernel);

}  // namespace lockstep::fake
