// Shared by the parts of the fake CUDA runtime: streams, events, and their captures. Guarded by lock().
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "cuda/fake/fake_cuda.h"

// Captured work: each node with the nodes that it comes after.
struct CUgraph_st {
  struct Node {
    int card;
    std::function<void()> run;
    std::function<bool()> ready;
    std::set<int> after;
  };
  std::vector<Node> nodes;
  std::set<cudaStream_t> streams;  // capturing streams; empty once the capture has ended
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
  std::set<int> last = {};  // nodes that this stream's next node comes after
};

struct CUevent_st {
  int card;
  std::shared_ptr<bool> passed = std::make_shared<bool>(true);
  std::shared_ptr<CUgraph_st> capture = nullptr;  // the capture that last recorded it
  std::set<int> after = {};
};

namespace lockstep::fake {

int& current_card();  ///< This thread's.
/// The result of every call about a card's memory or work.
cudaError_t state(int card);
/// Makes the current card's context, as cudaSetDevice does from CUDA 12 on, and every call about memory, streams or
/// events.
void use_card();
/// Invalidates the capture, after a query of captured work.
cudaError_t invalidate(CUgraph_st& graph, const char* why, cudaError_t error);

}  // namespace lockstep::fake
