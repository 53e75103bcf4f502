// Instructions of whole warps on matrices, on the emulator, as the PTX ISA defines them: ldmatrix, and mma.m16n8k16 of
// 16-bit floats with float sums.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <stdexcept>
#include <vector>

#include "cuda/emulation/device_code.h"

namespace lockstep::emulation {

/// What each lane of a warp brings to an instruction.
using WarpWords = std::array<std::array<std::uint64_t, 4>, 32>;

/// Calls use() with what all lanes of the warp have brought. For blocks of one dimension.
template <class Use>
void with_warp(const std::array<std::uint64_t, 4>& mine, const Use& use, std::source_location site) {
  static WarpWords warps[32];
  WarpWords& here = warps[threadIdx.x / 32];
  here[this_lane()] = mine;
  shuffle(~0u, 0, this_lane(), site);
  use(const_cast<const WarpWords&>(here));
  shuffle(~0u, 0, this_lane(), site);  // then the next instruction may bring words
}

/// ldmatrix.sync.aligned.m8n8.x4(.trans).shared.b16: lane i brings the address of row i % 8 of matrix i / 8.
template <bool kTransposed>
void load_matrices(std::uint32_t (&to)[4], const void* row,
                   std::source_location site = std::source_location::current()) {
  const auto address = reinterpret_cast<std::uintptr_t>(row);
  if (address % 16 != 0) throw std::logic_error("[emulation] a row of a matrix is not aligned to 16 bytes");
  with_warp(
      {address},
      [&](const WarpWords& lanes) {
        const unsigned lane = this_lane();
        for (unsigned matrix = 0; matrix < 4; ++matrix) {
          std::uint16_t pair[2];
          for (unsigned i = 0; i < 2; ++i) {
            const unsigned r = kTransposed ? 2 * (lane % 4) + i : lane / 4,
                           c = kTransposed ? lane / 4 : 2 * (lane % 4) + i;
            pair[i] = reinterpret_cast<const std::uint16_t*>(lanes[8 * matrix + r][0])[c];
          }
          std::memcpy(&to[matrix], pair, sizeof pair);
        }
      },
      site);
}

/// mma.sync.aligned.m16n8k16.row.col.f32.T.T.f32: sums += a b.
template <class T>
void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  std::source_location site = std::source_location::current()) {
  const auto joined = [](std::uint32_t low, std::uint32_t high) {
    return std::uint64_t(low) | std::uint64_t(high) << 32;
  };
  const auto element = [](std::uint64_t words, unsigned i) {
    return float(T::from_bits(std::uint16_t(words >> 16 * i)));
  };
  with_warp(
      {joined(a[0], a[2]), joined(a[1], a[3]), joined(b0, b1)},
      [&](const WarpWords& lanes) {
        const unsigned lane = this_lane();
        for (unsigned i = 0; i < 4; ++i) {
          const unsigned row = lane / 4, column = 2 * (lane % 4) + i % 2;
          for (unsigned k = 0; k < 16; ++k) {  // of a quad, each lane has two elements of either half of the row
            const unsigned owner = k % 8 / 2, place = k / 8 * 2 + k % 2;
            sums[i] += element(lanes[4 * row + owner][i / 2], place) * element(lanes[4 * column + owner][2], place);
          }
        }
      },
      site);
}

/// cp.async: the bytes arrive when the thread waits for them.
struct AsynchronousCopy {
  void* to;
  const void* from;
  bool exists;
};
struct AsynchronousCopies {
  std::uint64_t block = 0;
  std::vector<AsynchronousCopy> pending;
};
inline std::vector<AsynchronousCopy>& copies_of_this_thread() {
  static AsynchronousCopies threads[1024];
  AsynchronousCopies& mine = threads[threadIdx.x];
  if (mine.block != this_block() && !mine.pending.empty()) {
    mine.pending.clear();
    throw std::logic_error("[emulation] a thread of an earlier block did not wait for its asynchronous copies");
  }
  mine.block = this_block();
  return mine.pending;
}
inline void begin_copy(void* to, const void* from, bool exists) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    throw std::logic_error("[emulation] an asynchronous copy that is not aligned to 16 bytes");
  copies_of_this_thread().push_back({to, from, exists});
}
inline void finish_copies() {
  std::vector<AsynchronousCopy>& copies = copies_of_this_thread();
  for (const auto& [to, from, exists] : copies)
    if (exists)
      std::memcpy(to, from, 16);
    else
      std::memset(to, 0, 16);
  copies.clear();
}

}  // namespace lockstep::emulation
