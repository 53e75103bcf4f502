// Elementwise kernels and reductions over many tensors in one launch, on a GPU. A table of the tensors is passed as a
// kernel parameter; if it does not fit, it is divided among several launches. Blocks work on pieces of the tensors, and
// find their piece by bisection.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include <lockstep/kernels/compensated_sum.h>
#include <lockstep/kernels/cuda/combine.h>
#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/visit.h>

namespace lockstep {
template <std::size_t N>
struct MultiSpan;
template <class F, std::size_t N>
struct MultiMapKernel;
template <class R, class T>
struct MultiReduceKernel;
template <class F>
LOCKSTEP_HD auto bound(const F& f);
}  // namespace lockstep

namespace lockstep::gpu {

// The bytes of a table for few tensors, and for many. Kernel parameters are limited to 4096 bytes together, or to 32764
// bytes from CUDA 12.1 and compute capability 7.0 on (CUDA C++ Programming Guide, "__global__ function parameters").
inline constexpr std::size_t kSmallTable = 3072;
#if defined(__CUDA_ARCH_LIST__) && CUDART_VERSION >= 12010
inline constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__};  // ascending
inline constexpr std::size_t kLargeTable = kArchitectures[0] >= 700 ? 31744 : kSmallTable;
#else
inline constexpr std::size_t kLargeTable = CUDART_VERSION >= 12010 ? 31744 : kSmallTable;
#endif

/// Tensors cut into pieces, which are numbered consecutively over all tensors.
template <class Entry, std::size_t kBytes = kSmallTable>
struct PieceTable {
  static constexpr int kCapacity = int(kBytes / (sizeof(Entry) + sizeof(std::int64_t)));

  Entry entries[kCapacity];
  std::int64_t ends[kCapacity];  // one more than the number of each entry's last piece
  int size = 0;

  std::int64_t pieces() const { return size ? ends[size - 1] : 0; }
  bool full() const { return size == kCapacity; }
  void add(const Entry& entry, std::int64_t pieces_of_entry) {
    const std::int64_t before = pieces();
    entries[size] = entry;
    ends[size++] = before + pieces_of_entry;
  }

  /// The entry that a piece belongs to.
  __device__ int find(std::int64_t piece) const {
    int first = 0;
    for (int count = size; count > 1;) {  // the answer is in [first, first + count)
      const int half = count / 2;
      if (ends[first + half - 1] <= piece)
        first += half, count -= half;
      else
        count = half;
    }
    return first;
  }
  __device__ std::int64_t begin(int entry) const { return entry ? ends[entry - 1] : 0; }
};

template <class F, class... T>
__device__ void update(const F& f, T*... at) {
  const auto store = []<class To>(To* to, const auto& value) {
    if constexpr (!std::is_const_v<To>) *to = value;
  };
  [&](ComputeType<std::remove_const_t<T>>... values) {
    f(values...);
    (store(at, values), ...);
  }(*at...);
}

/// Like update(), but for a pack of elements: reads each operand with one load and writes it with one store.
template <int kPack, class F, class... T>
__device__ void update_pack(const F& f, T*... at) {
  const auto store = []<class To, class Values>(To* to, const Values& values) {
    if constexpr (!std::is_const_v<To>) store_pack(to, values);
  };
  [&](Pack<std::remove_const_t<T>, kPack>... packs) {
    for (int i = 0; i < kPack; ++i) update<F, T...>(f, &packs.values[i]...);
    (store(at, packs), ...);
  }(load_pack<kPack>(at)...);
}

inline constexpr std::int64_t kMapPiece = 1 << 12;  // elements of a piece: a whole number of packs

template <class F, class... T>
__device__ void update_piece(const F& f, std::int64_t count, T*... at) {
  constexpr int kPack = kPackOf<T...>;
  const std::int64_t packs = (is_aligned<kPack>(at) && ...) ? count / kPack : 0;
  for (std::int64_t p = threadIdx.x; p < packs; p += kThreads) update_pack<kPack>(f, (at + p * kPack)...);
  for (std::int64_t i = packs * kPack + threadIdx.x; i < count; i += kThreads) update(f, (at + i)...);
}

template <class F, class... T, std::size_t... I>
__device__ void update_piece_at(const F& f, std::int64_t first, std::int64_t count, std::byte* const* data,
                                std::index_sequence<I...>) {
  update_piece(f, count, static_cast<T*>(static_cast<void*>(data[I])) + first...);
}

template <class F, class Table, class... T>
__global__ void multi_map(const F unbound, const __grid_constant__ Table table) {
  const auto f = bound(unbound);
  for (std::int64_t piece = blockIdx.x; piece < table.ends[table.size - 1]; piece += gridDim.x) {
    const int entry = table.find(piece);
    const auto& span = table.entries[entry];
    const std::int64_t first = (piece - table.begin(entry)) * kMapPiece;
    const std::int64_t end = std::min(first + kMapPiece, span.count);
    update_piece_at<decltype(f), T...>(f, first, end - first, span.data.data(), std::index_sequence_for<T...>());
  }
}

/// Fills the table with the first spans; returns the spans that did not fit.
template <class Table, std::size_t N>
std::span<const MultiSpan<N>> fill(Table& table, std::span<const MultiSpan<N>> spans) {
  table.size = 0;
  for (; !spans.empty() && !table.full(); spans = spans.subspan(1))
    table.add(spans.front(), (spans.front().count + kMapPiece - 1) / kMapPiece);
  return spans;
}

template <class Table, class F, class... T>
void enqueue_tables(const MultiMapKernel<F, sizeof...(T)>& kernel, const KernelContext& context) {
  Table table;
  for (std::span<const MultiSpan<sizeof...(T)>> rest = *kernel.spans; !rest.empty();) {
    rest = fill(table, rest);
    launch_grid(multi_map<F, Table, T...>, blocks_for(table.pieces(), 1), kThreads, context, kernel.f, table);
  }
}

/// Enqueues the kernel for operands of element types T.
template <class F, class... T>
void enqueue_multi_map(const MultiMapKernel<F, sizeof...(T)>& kernel, const KernelContext& context) {
  using Span = MultiSpan<sizeof...(T)>;
  using Small = PieceTable<Span>;
  if (kernel.spans->size() <= std::size_t(Small::kCapacity))
    enqueue_tables<Small, F, T...>(kernel, context);
  else
    enqueue_tables<PieceTable<Span, kLargeTable>, F, T...>(kernel, context);
}

/// A tensor to reduce, in pieces whose length depends on the tensor's number of elements alone.
template <class T>
struct ReducedTensor {
  static constexpr std::int64_t kLeastPiece = 1 << 14, kMostPieces = 4096;

  const T* from;
  std::int64_t count, piece;
  CompensatedSum* to;

  ReducedTensor() = default;
  ReducedTensor(const T* from_, std::int64_t count_, CompensatedSum* to_)
      : from(from_),
        count(count_),
        piece(std::max(kLeastPiece, ((count_ + kMostPieces - 1) / kMostPieces + 15) / 16 * 16)),
        to(to_) {}
  LOCKSTEP_HD std::int64_t pieces() const { return (count + piece - 1) / piece; }
};

// Four neighbouring elements, read with one load if they are aligned. Unaligned tensors are read in fours too, so that
// the order of combination, and so the result, does not depend on the alignment.
template <class T>
__device__ Pack<T, 4> four_at(const T* from, bool aligned) {
  if (aligned) return load_pack<4>(from);
  return {from[0], from[1], from[2], from[3]};
}

template <class R, class T>
__global__ void multi_reduce_pieces(const R reducer, const PieceTable<ReducedTensor<T>> table,
                                    CompensatedSum* partial) {
  const auto load = [&](const T& element) { return CompensatedSum{reducer.load(double(ComputeType<T>(element))), 0}; };
  for (std::int64_t p = blockIdx.x; p < table.ends[table.size - 1]; p += gridDim.x) {
    const int entry = table.find(p);
    const ReducedTensor<T>& tensor = table.entries[entry];
    const T* const from = tensor.from + (p - table.begin(entry)) * tensor.piece;
    const std::int64_t count = std::min(tensor.piece, tensor.count - (p - table.begin(entry)) * tensor.piece);
    const bool aligned = is_aligned<4>(from);
    CompensatedSum value = {};
    const auto take = [&](const Pack<T, 4>& four) {
      for (const T& element : four.values) value = reducer.combine(value, load(element));
    };
    std::int64_t q = threadIdx.x;
    for (; q + kThreads < count / 4; q += 2 * kThreads) {  // two at a time, so that their loads overlap
      const Pack<T, 4> first = four_at(from + 4 * q, aligned), second = four_at(from + 4 * (q + kThreads), aligned);
      take(first);
      take(second);
    }
    if (q < count / 4) take(four_at(from + 4 * q, aligned));
    if (const std::int64_t rest = count / 4 * 4 + threadIdx.x; rest < count)
      value = reducer.combine(value, load(from[rest]));
    value = combine_block(reducer, value);
    if (threadIdx.x == 0) partial[p] = value;
  }
}

/// Combines the pieces' results, one block for each tensor.
template <class R, class T>
__global__ void multi_reduce_tensors(const R reducer, const PieceTable<ReducedTensor<T>> table,
                                     const CompensatedSum* partial) {
  for (int entry = int(blockIdx.x); entry < table.size; entry += int(gridDim.x)) {
    CompensatedSum value = {};
    for (std::int64_t p = table.begin(entry) + threadIdx.x; p < table.ends[entry]; p += kThreads)
      value = reducer.combine(value, partial[p]);
    value = combine_block(reducer, value);
    if (threadIdx.x == 0) *table.entries[entry].to = value;
  }
}

template <class R, class T>
void enqueue(const MultiReduceKernel<R, T>& kernel, const KernelContext& context) {
  using Table = PieceTable<ReducedTensor<T>>;
  constexpr std::int64_t kRoom = KernelContext::kWorkspaceBytes / sizeof(CompensatedSum);
  static_assert(ReducedTensor<T>::kMostPieces <= kRoom);
  auto* const partial = static_cast<CompensatedSum*>(context.workspace);
  Table table;
  const auto launch = [&] {
    if (table.pieces() > 0)
      launch_grid(multi_reduce_pieces<R, T>, blocks_for(table.pieces(), 1), kThreads, context, kernel.reducer, table,
                  partial);
    launch_grid(multi_reduce_tensors<R, T>, blocks_for(table.size, 1), kThreads, context, kernel.reducer, table,
                partial);
    table.size = 0;
  };
  for (const auto& row : *kernel.rows) {
    const ReducedTensor<T> tensor(row.from, row.count, row.to);
    if (table.full() || table.pieces() + tensor.pieces() > kRoom) launch();
    table.add(tensor, tensor.pieces());
  }
  if (table.size) launch();
}

}  // namespace lockstep::gpu
