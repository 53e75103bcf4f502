#include "backends/cuda/copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::gpu {
namespace {

// The largest pitch of a 2D copy: cudaDeviceProp::memPitch has this value on every card that CUDA 12 supports.
constexpr std::size_t kMaxPitch = (std::size_t(1) << 31) - 1;

// Calls f with pieces of the copy, of at most `most` bytes each.
template <class F>
void for_each_piece(const Copy& whole, std::size_t most, F&& f) {
  Copy copy = whole;
  if (copy.is_dense()) {
    copy.row_bytes *= copy.rows;
    copy.rows = 1;
  }
  if (copy.row_bytes == 0) return;
  const std::size_t rows_each = std::max<std::size_t>(1, most / copy.row_bytes);
  const std::size_t bytes_each = std::min(most, copy.row_bytes);
  for (std::size_t row = 0; row < copy.rows; row += rows_each)
    for (std::size_t at = 0; at < copy.row_bytes; at += bytes_each) {
      Copy piece = copy;
      piece.to = static_cast<std::byte*>(copy.to) + row * copy.to_pitch + at;
      piece.from = static_cast<const std::byte*>(copy.from) + row * copy.from_pitch + at;
      piece.rows = std::min(rows_each, copy.rows - row);
      piece.row_bytes = std::min(bytes_each, copy.row_bytes - at);
      f(piece);
    }
}

template <class F>
void for_each_row(const Copy& copy, F&& f) {
  for_each_piece(copy, copy.row_bytes, f);
}

void copy_rows_on_host(std::byte* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                       const Copy& piece) {
  for (std::size_t row = 0; row < piece.rows; ++row)
    std::memcpy(to + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch, piece.row_bytes);
}

void enqueue_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, const Copy& piece,
                  const CudaStream& stream) {
  if (piece.rows == 1) to_pitch = from_pitch = piece.row_bytes;
  if (std::max(to_pitch, from_pitch) > kMaxPitch) {
    Copy rows = piece;
    rows.to = to, rows.from = from, rows.to_pitch = to_pitch, rows.from_pitch = from_pitch;
    for_each_row(rows, [&](const Copy& row) { enqueue_rows(row.to, 0, row.from, 0, row, stream); });
    return;
  }
  check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, piece.row_bytes, piece.rows, cudaMemcpyDefault,
                          stream.stream.get()),
        "cudaMemcpy2DAsync", stream.device);
}

}  // namespace

void copy_between_devices(const Copy& copy, int to_card, int from_card, CudaStream& stream) {
  const std::size_t bytes = copy.bytes();
  if (bytes == 0) return;
  if (!copy.is_dense() && std::max(copy.to_pitch, copy.from_pitch) > kMaxPitch) {
    for_each_row(copy, [&](const Copy& row) { copy_between_devices(row, to_card, from_card, stream); });
    return;
  }
  cudaStream_t const on = stream.stream.get();
  if (copy.is_dense() && to_card == from_card)
    return check(cudaMemcpyAsync(copy.to, copy.from, bytes, cudaMemcpyDeviceToDevice, on), "cudaMemcpyAsync",
                 stream.device);
  if (copy.is_dense())
    return check(cudaMemcpyPeerAsync(copy.to, to_card, copy.from, from_card, bytes, on), "cudaMemcpyPeerAsync",
                 stream.device);
  if (to_card == from_card) return enqueue_rows(copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy, stream);
  cudaMemcpy3DPeerParms rows = {};
  rows.srcPtr = {const_cast<void*>(copy.from), copy.from_pitch, copy.row_bytes, copy.rows};
  rows.dstPtr = {copy.to, copy.to_pitch, copy.row_bytes, copy.rows};
  rows.srcDevice = from_card;
  rows.dstDevice = to_card;
  rows.extent = {copy.row_bytes, copy.rows, 1};
  check(cudaMemcpy3DPeerAsync(&rows, on), "cudaMemcpy3DPeerAsync", stream.device);
}

void copy_from_host(const Copy& copy, PinnedCache& pinned, CudaStream& stream, const Wait& wait) {
  for_each_piece(copy, PinnedCache::kLargestBytes, [&](const Copy& piece) {
    PinnedBuffer buffer = pinned.take(piece.bytes(), wait);
    copy_rows_on_host(buffer.data(), piece.row_bytes, piece.from, piece.from_pitch, piece);
    enqueue_rows(piece.to, piece.to_pitch, buffer.data(), piece.row_bytes, piece, stream);
    record_event(buffer.ended, stream);
    pinned.give(std::move(buffer));
  });
}

void copy_from_pinned(const Copy& copy, CudaStream& stream) {
  const std::size_t bytes = copy.bytes();
  if (bytes == 0) return;
  if (copy.is_dense())
    return check(cudaMemcpyAsync(copy.to, copy.from, bytes, cudaMemcpyHostToDevice, stream.stream.get()),
                 "cudaMemcpyAsync", stream.device);
  if (std::max(copy.to_pitch, copy.from_pitch) > kMaxPitch)
    return for_each_row(copy, [&](const Copy& row) { copy_from_pinned(row, stream); });
  enqueue_rows(copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy, stream);
}

void copy_to_host(const Copy& copy, PinnedCache& pinned, CudaStream& stream, const Wait& wait) {
  // Two buffers at a time: the host copies from one while the card fills the next.
  PinnedBuffer buffer;
  Copy in_buffer;
  const auto deliver = [&] {
    if (!buffer.memory) return;
    wait(buffer.ended.get());
    copy_rows_on_host(static_cast<std::byte*>(in_buffer.to), in_buffer.to_pitch, buffer.data(), in_buffer.row_bytes,
                      in_buffer);
    pinned.give(std::move(buffer));
  };
  for_each_piece(copy, PinnedCache::kLargestBytes, [&](const Copy& piece) {
    PinnedBuffer next = pinned.take(piece.bytes(), wait);
    enqueue_rows(next.data(), piece.row_bytes, piece.from, piece.from_pitch, piece, stream);
    record_event(next.ended, stream);
    deliver();
    buffer = std::move(next);
    in_buffer = piece;
  });
  deliver();
}

}  // namespace lockstep::gpu
