// A kernel as backends see it: its body, the memory that it reads and writes, and the context in which it runs.
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

/// The bytes that an operation touches: `rows` runs of `row_bytes` each, `pitch` bytes apart.
struct Region {
  const void* data = nullptr;  ///< The first byte.
  std::size_t row_bytes = 0;   ///< Bytes of each run.
  std::size_t rows = 1;        ///< Number of runs.
  std::size_t pitch = 0;       ///< Bytes from one run's start to the next one's.

  std::size_t bytes() const noexcept { return rows * row_bytes; }  ///< Bytes touched.
  /// Bytes from the first to the last byte touched.
  std::size_t span_bytes() const noexcept { return rows == 0 ? 0 : (rows - 1) * pitch + row_bytes; }
};

/// How an operation accesses a region.
enum class AccessKind : std::uint8_t { read, write };

/// A region, and how it is accessed.
struct MemoryAccess {
  Region region;                       ///< The bytes.
  AccessKind kind = AccessKind::read;  ///< Read or write.
};

/// A launch's description for the race checker, the trace and cost models. The name is a string literal.
struct LaunchInfo {
  const char* name = "";
  double flops = 0;                        ///< Floating-point operations.
  std::span<const MemoryAccess> accesses;  ///< All accesses of the launch.
};

/// Loads a kernel on its device before the kernel's first launch. (CUDA loads each kernel at its first launch, and may
/// wait for the card's running work to do so.)
class KernelLoader {
 public:
  virtual void load(const void* kernel) = 0;  ///< Loads the kernel.

 protected:
  ~KernelLoader() = default;
};

/// The context of a kernel's body. On host backends the body is synchronous: it has computed the results when it
/// returns, and uses all cores if `parallel`. On CUDA the body loads each of its kernels with `loader` and enqueues
/// their grids on `native_stream` of `device`. The grids may use `workspace`: kWorkspaceBytes of device memory that
/// belong to the stream, whose kernels use it one after the other.
struct KernelContext {
  static constexpr std::size_t kWorkspaceBytes = std::size_t(1) << 20;  ///< Size of `workspace`.

  bool parallel = false;  ///< Use all cores.
  int device = -1;
  void* native_stream = nullptr;   ///< A cudaStream_t on CUDA, else null.
  void* workspace = nullptr;       ///< Memory of the device on CUDA, else null.
  KernelLoader* loader = nullptr;  ///< Loads kernels on the device.
};

/// A non-owning reference to a callable void(const KernelContext&). own() makes an owning copy, for backends that run
/// the kernel later.
class KernelRef {
 public:
  using Owned = std::function<void(const KernelContext&)>;  ///< An owning copy.

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
  // Most kernels are trivially copyable. They are copied as bytes, rounded up to a multiple of 128, so that kernels of
  // similar size share one instantiation of std::function.
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

/// Splits [0, count) into pieces of about `grain`, and calls call(body, begin, end) for each piece, on all cores.
/// Returns when all have ended. The body must not throw.
LOCKSTEP_API void parallel_for_pieces(std::int64_t count, std::int64_t grain,
                                      void (*call)(const void*, std::int64_t, std::int64_t), const void* body);

/// Calls body(begin, end) for pieces of [0, count) of about `grain` each: on all cores, or, if count <= grain or the
/// context is not parallel, for the whole range at once. The body must not throw.
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

/// As parallel_for(), with the body compiled for the processor at hand (core/vectorized.h): for loops over elements.
template <class Body>
void vectorized_for(const KernelContext& context, std::int64_t count, std::int64_t grain, const Body& body) {
  parallel_for(context, count, grain, [&body](std::int64_t begin, std::int64_t end) { vectorized(body, begin, end); });
}

}  // namespace host

}  // namespace lockstep
