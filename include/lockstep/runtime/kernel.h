// What a kernel is to a backend: a body, what it reads and writes, and where it finds itself when it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>

#include <lockstep/core/export.h>
#include <lockstep/core/vectorized.h>

namespace lockstep {

/// Bytes that an operation touches: `rows` runs of `row_bytes`, `pitch` bytes apart.
struct Region {
  const void* data = nullptr;  ///< The first byte.
  std::size_t row_bytes = 0;   ///< Of each run.
  std::size_t rows = 1;        ///< Number of runs.
  std::size_t pitch = 0;       ///< Bytes from one run's start to the next one's.

  std::size_t bytes() const noexcept { return rows * row_bytes; }  ///< Touched.
  /// From the first to the last one touched.
  std::size_t span_bytes() const noexcept { return rows == 0 ? 0 : (rows - 1) * pitch + row_bytes; }
};

/// What is done to a region.
enum class AccessKind : std::uint8_t { read, write };

/// A region, and what is done to it.
struct MemoryAccess {
  Region region;                       ///< Where.
  AccessKind kind = AccessKind::read;  ///< What.
};

/// What a launch says of itself, for the race checker, the trace and cost models. The name is a literal.
struct LaunchInfo {
  const char* name = "";
  double flops = 0;                        ///< Floating-point operations.
  std::span<const MemoryAccess> accesses;  ///< All that it touches.
};

/// Brings a kernel to its device before its first grid. (CUDA loads kernels one by one, when they are first launched,
/// and a card may have to end its work for that.)
class KernelLoader {
 public:
  virtual void load(const void* kernel) = 0;  ///< Loads the kernel.

 protected:
  ~KernelLoader() = default;
};

/// Where a kernel's body finds itself. On the host backends it computes at once: in parallel over all cores
/// when `parallel`. On CUDA it has each of its kernels loaded, enqueues its grids on `native_stream` of `device`, and
/// may use `workspace` in them: kWorkspaceBytes of the device's memory, the stream's own, so that one kernel after the
/// other has them.
struct KernelContext {
  static constexpr std::size_t kWorkspaceBytes = std::size_t(1) << 20;  ///< Of `workspace`.

  bool parallel = false;  ///< Whether to use all cores.
  int device = -1;
  void* native_stream = nullptr;   ///< A cudaStream_t on CUDA, else null.
  void* workspace = nullptr;       ///< Memory of the device on CUDA, else null.
  KernelLoader* loader = nullptr;  ///< Of the device.
};

/// A non-owning reference to a callable void(const KernelContext&) that can be copied into an owning one:
/// backends that run at once never pay for the copy.
class KernelRef {
 public:
  using Owned = std::function<void(const KernelContext&)>;  ///< An owning one.

  /// Refers to `body`, which must outlive this.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, KernelRef>) KernelRef(const F& body)
      : body_(&body), bytes_(sizeof(F)), call_(call<F>), own_(own_of<F>()) {}

  void operator()(const KernelContext& context) const { call_(body_, context); }  ///< Runs the kernel.
  Owned own() const { return own_(*this); }                                       ///< A copy of the callable.

 private:
  template <class F>
  static void call(const void* body, const KernelContext& context) {
    (*static_cast<const F*>(body))(context);
  }

  template <class Body>
  struct Copied {
    Body body;
    void (*call)(const void*, const KernelContext&);
    void operator()(const KernelContext& context) const { call(&body, context); }
  };
  template <class F>
  static Owned copied(const KernelRef& kernel) {
    return Copied<F>{*static_cast<const F*>(kernel.body_), kernel.call_};
  }
  // Most kernels are bytes to copy. All of about one size share the code.
  template <std::size_t kBytes>
  struct alignas(std::max_align_t) Bytes {
    std::byte bytes[kBytes];
  };
  template <std::size_t kBytes>
  static Owned copied_bytes(const KernelRef& kernel) {
    Copied<Bytes<kBytes>> copy;
    std::memcpy(&copy.body, kernel.body_, kernel.bytes_);
    copy.call = kernel.call_;
    return copy;
  }
  template <class F>
  static constexpr auto own_of() {
    if constexpr (std::is_trivially_copyable_v<F> && alignof(F) <= alignof(std::max_align_t))
      return &copied_bytes<(sizeof(F) + 127) / 128 * 128>;
    else
      return &copied<F>;
  }

  const void* body_;
  std::size_t bytes_;
  void (*call_)(const void*, const KernelContext&);
  Owned (*own_)(const KernelRef&);
};

namespace host {

/// Calls body(begin, end) over [0, count) in pieces of about `grain`; at once and in one piece when the work is
/// small or `context` is serial. The body must not throw.
LOCKSTEP_API void parallel_for_pieces(std::int64_t count, std::int64_t grain,
                                      void (*call)(const void*, std::int64_t, std::int64_t), const void* body);

/// body(begin, end) over [0, count) in pieces of about `grain`.
template <class Body>
void parallel_for(const KernelContext& context, std::int64_t count, std::int64_t grain, const Body& body) {
  if (!context.parallel || count <= grain) {
    if (count > 0) body(std::int64_t(0), count);
    return;
  }
  parallel_for_pieces(
      count, grain,
      [](const void* f, std::int64_t begin, std::int64_t end) { (*static_cast<const Body*>(f))(begin, end); }, &body);
}

/// The same, compiled for the processor at hand (core/vectorized.h): for loops over elements.
template <class Body>
void vectorized_for(const KernelContext& context, std::int64_t count, std::int64_t grain, const Body& body) {
  parallel_for(context, count, grain,
               [&body](std::int64_t begin, std::int64_t end) { vectorized([&] { body(begin, end); }); });
}

}  // namespace host

}  // namespace lockstep
