// Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A number depends only on the seed, the call and the element, so it is the same on every backend.
#pragma once

#include <cstdint>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// A position in a sequence of random numbers.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  ///< Sequences of different streams are independent.
  std::uint64_t offset = 0;  ///< The number of blocks (of four 32-bit numbers) used so far.

  bool operator==(const GeneratorState&) const = default;
};

/// Restarts the process's sequence of random numbers.
LOCKSTEP_API void manual_seed(std::uint64_t seed);
namespace cuda {
/// PyTorch's names for manual_seed(): all devices draw from the one sequence of the process.
inline void manual_seed(std::uint64_t seed) { lockstep::manual_seed(seed); }
inline void manual_seed_all(std::uint64_t seed) { lockstep::manual_seed(seed); }
}  // namespace cuda
/// Takes `blocks` blocks of four 32-bit numbers from this thread's sequence and returns the position of the first.
LOCKSTEP_API GeneratorState draw(std::uint64_t blocks);
/// Get and set the position of this thread's sequence, for example to continue later with the same numbers.
LOCKSTEP_API GeneratorState current_generator();
LOCKSTEP_API void set_generator(const GeneratorState& generator);

/// While it lives, this thread draws from `generator` instead of the process's sequence.
class LOCKSTEP_API GeneratorGuard {
 public:
  explicit GeneratorGuard(GeneratorState& generator) noexcept;
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  GeneratorState* outer_;
};

/// Uniform in [0, 1). Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor rand(const Shape& sizes, const TensorOptions& options = {});
/// Normal with mean 0 and variance 1. Floating dtypes only, else DTypeError.
LOCKSTEP_API Tensor randn(const Shape& sizes, const TensorOptions& options = {});
/// Uniform integers in [low, high), int64 by default. Throws InvalidArgument unless low < high.
LOCKSTEP_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& sizes, const TensorOptions& options = {});
inline Tensor randint(std::int64_t high, const Shape& sizes, const TensorOptions& options = {}) {
  return randint(0, high, sizes, options);
}
/// A random permutation of 0 .. count - 1, int64 by default, drawn on the CPU.
LOCKSTEP_API Tensor randperm(std::int64_t count, const TensorOptions& options = {});

/// Tensors with the shape of `like`, and with its dtype and device unless the options give others. In all else like
/// rand(), randn() and randint().
LOCKSTEP_API Tensor rand_like(const Tensor& like, const TensorOptions& options = {});
LOCKSTEP_API Tensor randn_like(const Tensor& like, const TensorOptions& options = {});
LOCKSTEP_API Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high,
                                 const TensorOptions& options = {});

/// Fills a floating tensor with numbers uniform in [low, high). Not recorded for backward.
LOCKSTEP_API Tensor& uniform_(Tensor& tensor, double low, double high);
/// Fills a floating tensor with normal numbers. Not recorded for backward.
LOCKSTEP_API Tensor& normal_(Tensor& tensor, double mean, double standard_deviation);

// The functions above with a dtype or a device in place of the options.
template <OneOption T>
Tensor rand(const Shape& sizes, const T& option) {
  return rand(sizes, options_of(option));
}
template <OneOption T>
Tensor randn(const Shape& sizes, const T& option) {
  return randn(sizes, options_of(option));
}
template <OneOption T>
Tensor randint(std::int64_t low, std::int64_t high, const Shape& sizes, const T& option) {
  return randint(low, high, sizes, options_of(option));
}
template <OneOption T>
Tensor randperm(std::int64_t count, const T& option) {
  return randperm(count, options_of(option));
}

}  // namespace lockstep
