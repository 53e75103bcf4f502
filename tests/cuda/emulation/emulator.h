// A GPU's blocks on the CPU, for tests: one fiber for each CUDA thread, one block at a time. Threads run until they
// meet a barrier or a shuffle, in an order that can be chosen: what is right in every order needs no luck.
//
// ThreadSanitizer sees each CUDA thread as a thread of its own, ordered with the others by barriers and shuffles alone,
// so it finds races within a block. What the emulator cannot show: races between blocks, memory of one GPU that another
// uses, speed.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
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
void synchronize_threads(std::source_location site);
/// The value that the thread of `lane` gave; all threads of the warp that `mask` names meet here.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned lane, std::source_location site);

/// Runs all blocks of a grid. Throws what a kernel throws, and std::logic_error for what CUDA leaves undefined: threads
/// of a block at different barriers, lanes that a mask names and that do not come, threads that wait for ever.
void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& kernel);

/// A kernel, with what nvcc's stub knows of it: how it is called, and how large its parameters are.
class KernelHandle {
 public:
  template <class... Parameters>
  explicit KernelHandle(void (*kernel)(Parameters...))
      : address_(reinterpret_cast<const void*>(kernel)), call_(call<Parameters...>), sizes_(kSizes<Parameters...>) {
    static_assert(((std::is_trivially_copyable_v<Parameters> && alignof(Parameters) <= 16) && ...));
    static_assert((sizeof(Parameters) + ... + 0) <= 32764, "more than a kernel's parameters may have");
  }
  operator const void*() const { return address_; }

  /// Runs it as the thread whose turn it is.
  void operator()(void* const* arguments) const { call_(address_, arguments); }
  std::span<const std::size_t> sizes() const { return sizes_; }  ///< Of its parameters, in bytes.

 private:
  template <class... Parameters>
  static constexpr std::array<std::size_t, sizeof...(Parameters)> kSizes = {sizeof(Parameters)...};
  template <class... Parameters>
  static void call(const void* kernel, void* const* arguments) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      reinterpret_cast<void (*)(Parameters...)>(kernel)(*static_cast<const Parameters*>(arguments[I])...);
    }
    (std::index_sequence_for<Parameters...>());
  }

  const void* address_;
  void (*call_)(const void* kernel, void* const* arguments);
  std::span<const std::size_t> sizes_;
};

/// CUDA's checks of a launch, for every card of compute capability 9.0. The arguments are copied, as CUDA does, and the
/// grid is run in its stream's turn.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const KernelHandle& kernel, void** arguments);

}  // namespace lockstep::emulation
