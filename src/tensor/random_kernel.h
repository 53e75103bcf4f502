// Distributions over Philox blocks, and the kernel that fills an array with their numbers.
// Number i takes word i % 4 of block start + i / 4; float64 and integers take two words, half i % 2 of block start + i
// / 2. So numbers do not depend on the backend, its threads or the layout.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <lockstep/tensor/random.h>

#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/visit.h>
#include "cpu/parallel.h"
#include "tensor/normal.h"
#include "tensor/philox.h"
#include "tensor/replay_values.h"

namespace lockstep {

/// The largest value of T below `bound`.
template <class T>
T below(T bound) {
  if constexpr (sizeof(T) == 2) {
    const std::uint16_t bits = bound.bits();
    if (float(bound) == 0) return T::from_bits(0x8001);
    return T::from_bits(std::uint16_t(float(bound) > 0 ? bits - 1 : bits + 1));
  } else {
    return std::nextafter(bound, -std::numeric_limits<T>::infinity());
  }
}

/// Uniform in [low, high): low + (high - low) u, where u in [0, 1) has 24 random bits (float64: 53). For 16-bit types,
/// the float result is rounded.
template <class T>
struct Uniform {
  static constexpr double kFlops = 3;
  static constexpr int kPerBlock = sizeof(T) == 8 ? 2 : 4;
  using Compute = ComputeType<T>;

  Uniform(T low, T high) : low_(low), width_(Compute(high) - low_), last_(low < high ? below(high) : low) {}

  LOCKSTEP_HD void operator()(const PhiloxBlock& block, T* out) const {
    for (int i = 0; i < kPerBlock; ++i) {
      Compute u;
      if constexpr (kPerBlock == 2)
        u = to_uniform(block.wide(i));
      else
        u = to_uniform(block.words[i]);
      const Compute value = normal_detail::fused(u, width_, low_);
      out[i] = T(value < last_ ? value : last_);  // rounding must not give `high`
    }
  }

 private:
  Compute low_, width_, last_;
};

template <class T>
struct Normal {
  static constexpr double kFlops = 30;
  static constexpr int kPerBlock = sizeof(T) == 8 ? 2 : 4;
  using Compute = ComputeType<T>;

  Compute mean, standard_deviation;

  LOCKSTEP_HD void operator()(const PhiloxBlock& block, T* out) const {
    if constexpr (kPerBlock == 2) {
      put(to_normal(block.wide(0), block.wide(1)), out);
    } else {
      put(to_normal(block.words[0], block.words[1]), out);
      put(to_normal(block.words[2], block.words[3]), out + 2);
    }
  }

 private:
  LOCKSTEP_HD void put(NormalPair<Compute> pair, T* out) const {
    out[0] = T(normal_detail::fused(pair.first, standard_deviation, mean));
    out[1] = T(normal_detail::fused(pair.second, standard_deviation, mean));
  }
};

/// low + [0, range), from 64 bits: each value with the same probability to within 2^-64.
template <class T>
struct Integer {
  static constexpr double kFlops = 0;
  static constexpr int kPerBlock = 2;

  std::int64_t low;
  std::uint64_t range;

  LOCKSTEP_HD void operator()(const PhiloxBlock& block, T* out) const {
    for (int i = 0; i < 2; ++i)
      out[i] = T(ComputeType<T>(std::int64_t(std::uint64_t(low) + to_range(block.wide(i), range))));
  }
};

/// The number of blocks for `count` numbers.
inline std::uint64_t blocks_for(std::int64_t count, int per_block) noexcept {
  return std::uint64_t(count / per_block + (count % per_block != 0));
}

inline constexpr int kBlockLanes = 64;  ///< Blocks made at once: they fit the L1 cache.

/// words[i][lane] = word i of block first + lane of a sequence. Each step loops over all lanes, so that it becomes
/// vector instructions; the function is always inlined, so that it is compiled for the caller's instruction set.
[[gnu::always_inline]] inline void make_blocks(const GeneratorState& start, std::uint64_t first, int lanes,
                                               std::uint32_t (&words)[4][kBlockLanes]) {
  const std::uint64_t from = start.offset + first;
  for (int lane = 0; lane < lanes; ++lane) {
    const PhiloxBlock counter = philox_counter(start.stream, from + std::uint64_t(lane));
    for (int i = 0; i < 4; ++i) words[i][lane] = counter.words[i];
  }
  PhiloxKey key = philox_key(start.seed);
  for (int round = 0; round < kPhiloxRounds; ++round, key = key.next())
    for (int lane = 0; lane < lanes; ++lane) {
      const PhiloxBlock block = philox_round({{words[0][lane], words[1][lane], words[2][lane], words[3][lane]}}, key);
      for (int i = 0; i < 4; ++i) words[i][lane] = block.words[i];
    }
}

/// Fills out[0 .. count), which is dense, from the blocks that begin at `random`.
template <class Distribution, class T>
struct RandomKernel {
  static constexpr std::int64_t kGrain = 1 << 12;  // up to this many blocks are not divided between tasks
  static constexpr int kLanes = kBlockLanes;
  static constexpr int kPer = Distribution::kPerBlock;

  Distribution distribution;
  T* out;
  std::int64_t count;
  RandomStart random;

  void operator()(const KernelContext& context) const {
    const std::int64_t blocks = std::int64_t(blocks_for(count, kPer));
    host::vectorized_for(context, blocks, kGrain, [this](std::int64_t begin, std::int64_t end) {
      const GeneratorState start = random.get();
      const std::int64_t whole = std::min(end, count / kPer);
      std::int64_t b = begin;
      for (; b + kLanes <= whole; b += kLanes) make_many(start, b, out + b * kPer);
      for (; b < whole; ++b) make_one(start, b, kPer, out + b * kPer);
      if (b < end) make_one(start, b, count - b * kPer, out + b * kPer);  // the block's other numbers are dropped
    });
  }

  std::int64_t items() const { return std::int64_t(blocks_for(count, kPer)); }
  LOCKSTEP_HD void item(std::int64_t b) const {
    const std::int64_t left = count - b * kPer;
    make_one(random.get(), b, left < kPer ? left : kPer, out + b * kPer);
  }

 private:
  LOCKSTEP_HD void make_one(const GeneratorState& start, std::int64_t index, std::int64_t wanted, T* to) const {
    gpu::Pack<T, kPer> numbers;
    distribution(philox(philox_counter(start.stream, start.offset + std::uint64_t(index)), philox_key(start.seed)),
                 numbers.values);
    if (wanted == kPer && gpu::is_aligned<kPer>(to)) return gpu::store_pack(to, numbers);
    for (int i = 0; i < kPer; ++i)  // std::copy_n would do nothing on a GPU: it ends in memmove, a host function there
      if (i < wanted) to[i] = numbers.values[i];
  }

  void make_many(const GeneratorState& start, std::int64_t first, T* to) const {
    std::uint32_t words[4][kBlockLanes];
    make_blocks(start, std::uint64_t(first), kBlockLanes, words);
    const Distribution distribute = distribution;
    T numbers[kPer][kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      T values[kPer];
      distribute({{words[0][lane], words[1][lane], words[2][lane], words[3][lane]}}, values);
      for (int i = 0; i < kPer; ++i) numbers[i][lane] = values[i];
    }
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < kPer; ++i) to[lane * kPer + i] = numbers[i][lane];
  }
};

}  // namespace lockstep
