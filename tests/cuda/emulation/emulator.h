// A GPU's blocks on the CPU, for tests: one fiber for each CUDA thread, one block at a time. Threads run until they
// meet a barrier or a shuffle, in an order that can be chosen: what is right in every order needs no luck.
//
// ThreadSanitizer sees each CUDA thread as a thread of its own, ordered with the others by barriers and shuffles alone,
// so it finds races within a block. What the emulator cannot show: races between blocks, memory of one GPU that another
// uses, speed.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>

namespace lockstep::emulation {

/// In which order blocks are taken, and threads that could run.
enum class Order { forward, reverse, shuffled };

/// A place in a kernel's source.
struct Site {
  unsigned line = 0;
  std::string_view file;

  auto operator<=>(const Site&) const = default;
  bool operator==(const Site& other) const {  // the file is mostly one literal
    return line == other.line && (file.data() == other.file.data() || file == other.file);
  }
};

/// One launch.
struct Launch {
  dim3 blocks, threads;
  std::size_t shared_bytes;
};

struct Settings {
  Order order = Order::forward;
  Site without;                 ///< A barrier that no thread waits at, to show that a test would see it missing.
  std::int64_t max_blocks = 3;  ///< For kernels that stride over the grid; 16384 on a card.
  bool record_only = false;     ///< Launches are checked and kept in `launches`, and no kernel runs.

  // What was seen.
  std::vector<Site> barriers;  ///< Where threads have waited, each once.
  std::vector<Launch> launches;
};

/// The order is at first the one that LOCKSTEP_EMULATION_ORDER names: forward, reverse or shuffled.
Settings& settings();

// For code on the emulated GPU.
unsigned this_lane();
void synchronize_threads(Site site);
/// The value that the thread of `lane` gave; all threads of the warp that `mask` names meet here.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned lane, Site site);

/// Runs all blocks of a grid. Throws what a kernel throws, and std::logic_error for what CUDA leaves undefined: threads
/// of a block at different barriers, lanes that a mask names and that do not come, threads that wait for ever.
void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& kernel);

/// CUDA's checks of a launch, for every card of compute capability 9.0; the grid is run in its stream's turn.
cudaError_t enqueue_grid(const cudaLaunchConfig_t& config, std::function<void()> kernel);

}  // namespace lockstep::emulation
