// A GPU's blocks on the CPU, for tests: one fiber per CUDA thread, one block at a time. Threads run until they reach a
// barrier or a shuffle, in a selectable order: a kernel that is right in every order is right on a card.
//
// ThreadSanitizer sees each CUDA thread as a thread of its own, ordered with the others only by barriers and shuffles,
// so it finds races within a block. The emulator cannot show races between blocks, accesses to another GPU's memory, or
// speed.
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

/// The order in which blocks, and threads that could run, are executed.
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
  Site without;                 ///< A barrier that all threads skip, to show that a test detects its absence.
  std::int64_t max_blocks = 3;  ///< For grid-stride kernels; 16384 on a card.
  bool record_only = false;     ///< Launches are checked and recorded in `launches`, but no kernel runs.

  // Observations.
  std::vector<Site> barriers;  ///< The barriers executed so far, each once.
  std::vector<Launch> launches;
};

/// Initially the order is LOCKSTEP_EMULATION_ORDER: forward, reverse or shuffled.
Settings& settings();

// For code on the emulated GPU.
unsigned this_lane();
/// The number of the running block among all that have run.
std::uint64_t this_block();
void synchronize_threads(std::source_location site);
/// Returns the value passed by the thread of `lane`; all threads of the warp that are in `mask` meet here.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned lane, std::source_location site);

/// Runs all blocks of a grid. Throws a kernel's exception, and std::logic_error for what CUDA leaves undefined: threads
/// of a block at different barriers, lanes in a mask that do not arrive, threads that wait forever.
void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& kernel);

/// A kernel, with the knowledge of nvcc's stub: how to call it, and the sizes of its parameters.
class KernelHandle {
 public:
  template <class... Parameters>
  explicit KernelHandle(void (*kernel)(Parameters...))
      : address_(reinterpret_cast<const void*>(kernel)), call_(call<Parameters...>), sizes_(kSizes<Parameters...>) {
    static_assert(((std::is_trivially_copyable_v<Parameters> && alignof(Parameters) <= 16) && ...));
    static_assert((sizeof(Parameters) + ... + 0) <= 32764, "more than a kernel's parameters may have");
  }
  operator const void*() const { return address_; }

  /// Runs the kernel as the current thread.
  void operator()(void* const* arguments) const { call_(address_, arguments); }
  std::span<const std::size_t> sizes() const { return sizes_; }  ///< Bytes of each parameter.

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

/// Checks a launch as CUDA does for cards of compute capability 9.0. Copies the arguments, as CUDA does, and enqueues
/// the grid on its stream.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const KernelHandle& kernel, void** arguments);

}  // namespace lockstep::emulation
