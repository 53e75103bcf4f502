// What the parts of the fake CUDA runtime share: streams, events, and what is captured of them. All of it is guarded by
// lock().
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "cuda/fake/fake_cuda.h"

// Captured work: each piece with those that it comes after.
struct CUgraph_st {
  struct Node {
    int card;
    std::function<void()> run;
    std::set<int> after;
  };
  std::vector<Node> nodes;
  std::set<cudaStream_t> streams;  // that capture; none once it has ended
  bool is_invalid = false;
};

struct CUgraphExec_st {
  std::vector<CUgraph_st::Node> nodes;
};

struct CUstream_st {
  struct Work {
    std::function<void()> run;
    std::function<bool()> ready;
  };
  int card;
  std::deque<Work> work;
  std::shared_ptr<CUgraph_st> capture = nullptr;
  std::set<int> last = {};  // of the captured work: what comes next on this stream comes after these
};

struct CUevent_st {
  int card;
  std::shared_ptr<bool> passed = std::make_shared<bool>(true);
  std::shared_ptr<CUgraph_st> capture = nullptr;  // that it was recorded in last
  std::set<int> after = {};
};

namespace lockstep::fake {

int& current_card();  ///< Of this thread.
/// What every call gives that is about a card's memory or work.
cudaError_t state(int card);
/// Makes the current card's context, as from CUDA 12 on cudaSetDevice does already, and every call about memory,
/// streams or events.
void use_card();
/// Ends the capture: for what asks for work that is captured.
cudaError_t invalidate(CUgraph_st& graph, const char* why, cudaError_t error);

}  // namespace lockstep::fake
