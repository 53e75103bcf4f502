// Kernels that process rows on a GPU, if the rows of all operands are dense, equally long and aligned to 16 bytes. The
// threads that share a row (its team) read and write packs: vectors of up to 16 bytes. A row that fits into its team's
// registers is read once.
#pragma once

#include <algorithm>
#include <bit>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep/kernels/cuda/pack.h>
#include <lockstep/kernels/cuda/row_team.h>

namespace lockstep {
template <int N>
struct RowGeometry;
template <class F, class Out, class... In>
struct RowKernel;
}  // namespace lockstep

namespace lockstep::gpu {

/// The place of an element in a row: element k of the current pack, which is pack number `slot` of its thread.
struct PackPlace {
  int slot, k;
};

/// A row of the output.
template <int kPack, class T>
struct WrittenRow {
  T* data;
  std::int64_t length;
};

/// A row of an input. The team loads its thread's current pack with one load before it visits the pack's elements,
/// because a compiler does not merge loads of single elements.
template <int kPack, class T>
struct ReadRow {
  using Element = T;

  const T* data;
  std::int64_t length;
  const Pack<T, kPack>* current;

  __device__ T operator[](const PackPlace& at) const { return current->values[at.k]; }
};

/// A thread's elements of a row, in registers.
template <int kPack, int kSlots, class T>
struct KeptRow {
  using Element = T;

  std::int64_t length;
  Pack<T, kPack> packs[kSlots];

  __device__ T operator[](const PackPlace& at) const { return packs[at.slot].values[at.k]; }
};

/// One thread of a team. It has the members of OneThread (kernels/row_team.h) except visits(). A thread has at most
/// kSlots packs of a row, which kept() keeps in registers; if kSlots is 0, it has any number of packs and keeps none.
/// read(p) loads pack p of all operands; the compiler removes the loads that are not used.
template <int kPack, int kSlots, class Read>
class PackTeam {
 public:
  static constexpr bool kSerial = false;
  using Index = PackPlace;

  /// `length` is the length of the rows, a multiple of kPack. shape.beside must be 1: teams are not interleaved.
  __device__ PackTeam(TeamShape shape, bool idle, std::int64_t length, const Read& read)
      : team_(shape, idle, 0, 1),
        read_(read),
        step_(shape.size),
        first_(int(threadIdx.x) % shape.size),
        packs_(idle ? 0 : Count(length / kPack)) {}

  /// If `length` is 0, reduces no elements; otherwise the whole row, even if `length` is less.
  template <class A, class Step, class Combine>
  __device__ A reduce(std::int64_t length, A value, const Step& step, const Combine& combine) const {
    each_pack(length ? packs_ : 0, [&](std::int64_t, int slot) {
      unrolled<kPack>([&](int k) { value = step(value, PackPlace{slot, k}); });
    });
    return team_.reduce(
        0, value, [](const A& same, std::int64_t) { return same; }, combine);
  }

  template <class Visit>
  __device__ void each(std::int64_t, const Visit& visit) const {
    each_pack(packs_, [&](std::int64_t, int slot) { unrolled<kPack>([&](int k) { visit(PackPlace{slot, k}); }); });
  }

  template <class T>
  __device__ auto kept(const ReadRow<kPack, T>& row) const {
    if constexpr (kSlots == 0) {
      return row;
    } else {
      KeptRow<kPack, kSlots, T> kept = {row.length, {}};
      each_pack(packs_, [&](std::int64_t, int slot) { kept.packs[slot] = *row.current; });
      return kept;
    }
  }

  template <class T, class Value>
  __device__ void fill(const WrittenRow<kPack, T>& row, const Value& value) const {
    each_pack(packs_, [&](std::int64_t pack, int slot) {
      Pack<T, kPack> elements;
      unrolled<kPack>([&](int k) { elements.values[k] = value(PackPlace{slot, k}); });
      store_pack(row.data + pack * kPack, elements);
    });
  }

  __device__ bool first() const { return team_.first(); }

 private:
  using Count = std::conditional_t<(kSlots > 0), int, std::int64_t>;  // counts packs; kept packs are few

  // Visits this thread's packs among the first `packs`.
  template <class Visit>
  __device__ void each_pack(Count packs, const Visit& visit) const {
    const auto take = [&](Count pack, int slot) {
      read_(pack);
      visit(pack, slot);
    };
    if constexpr (kSlots > 0) {
      unrolled<kSlots>([&](int slot) {
        if (const Count pack = first_ + slot * step_; pack < packs) take(pack, slot);
      });
    } else {
      Count pack = first_;
      for (; pack + step_ < packs; pack += 2 * step_) {  // two at a time, so that their loads overlap
        take(pack, 0);
        take(pack + step_, 0);
      }
      if (pack < packs) take(pack, 0);
    }
  }

  RowTeam team_;
  const Read& read_;
  Count step_, first_, packs_;
};

/// True if f takes rows of any type, and so rows of packs.
template <class F, class Out, class... In>
inline constexpr bool kTakesPacks = [] {
  constexpr int kPack = kPackOf<Out, In...>;
  using AnyTeam = PackTeam<kPack, 0, void (*)(std::int64_t)>;
  return std::is_invocable_v<const F&, const AnyTeam&, WrittenRow<kPack, Out>, ReadRow<kPack, In>...>;
}();

template <int kPack, int kSlots, class F, class Out, class... In, std::size_t... I>
__device__ void run_row_in_packs(const F& f, TeamShape shape, bool idle, std::int64_t length,
                                 const std::array<std::int64_t, 1 + sizeof...(In)>& at, std::index_sequence<I...>,
                                 Out* out, const In*... in) {
  std::tuple<Pack<In, kPack>...> current = {};
  const auto read = [&](std::int64_t pack) {
    ((std::get<I>(current) = load_pack<kPack>(in + at[I + 1] + pack * kPack)), ...);
  };
  const PackTeam<kPack, kSlots, decltype(read)> team(shape, idle, length, read);
  f(team, WrittenRow<kPack, Out>{out + at[0], length},
    ReadRow<kPack, In>{in + at[I + 1], length, &std::get<I>(current)}...);
}

/// Each team takes one row at a time.
template <int kPack, int kSlots, class F, class Out, class... In>
__device__ void take_rows_in_packs(const F& f, const TeamShape& shape, const RowsOf<1 + sizeof...(In)>& of,
                                   Out* __restrict__ out, const In*... in) {
  const std::int64_t place = int(threadIdx.x) / shape.size;
  // All threads of a block run the same number of iterations, since teams may use the block's barriers. In the last
  // iteration some threads are idle.
  for (std::int64_t first = std::int64_t(blockIdx.x) * shape.rows(); first < of.rows;
       first += std::int64_t(gridDim.x) * shape.rows()) {
    const bool idle = first + place >= of.rows;
    run_row_in_packs<kPack, kSlots>(f, shape, idle, of.lengths[0], of.outer(idle ? of.rows - 1 : first + place),
                                    std::index_sequence_for<In...>(), out, in...);
  }
}
template <int kPack, int kSlots, class F, class Out, class... In>
__global__ void run_rows_in_packs(const F f, const TeamShape shape, const RowsOf<1 + sizeof...(In)> of,
                                  Out* __restrict__ out, const In*... in) {
  take_rows_in_packs<kPack, kSlots>(f, shape, of, out, in...);
}
/// Limits a thread to 64 registers (4 blocks per multiprocessor), so that more threads have rows in flight. Without the
/// limit nvcc would use more.
template <int kPack, int kSlots, class F, class Out, class... In>
__global__ void __launch_bounds__(kThreads, 4)
    run_rows_in_packs_of_few(const F f, const TeamShape shape, const RowsOf<1 + sizeof...(In)> of,
                             Out* __restrict__ out, const In*... in) {
  take_rows_in_packs<kPack, kSlots>(f, shape, of, out, in...);
}

/// True if a thread keeps at most 32 floats, few enough for the 64 registers of run_rows_in_packs_of_few.
template <int kPack, int kSlots, class... In>
inline constexpr bool kKeepsFew = kSlots > 0 && int(sizeof...(In)) * kSlots* kPack <= 32 &&
                                  (std::is_same_v<ComputeType<In>, float> && ...);

template <int kPack, int kSlots, class F, class Out, class... In>
constexpr auto rows_in_packs() {
  if constexpr (kKeepsFew<kPack, kSlots, In...>)
    return run_rows_in_packs_of_few<kPack, kSlots, F, Out, In...>;
  else
    return run_rows_in_packs<kPack, kSlots, F, Out, In...>;
}

/// True if all rows are dense and equally long, and their length and strides are multiples of a pack. Does not check
/// where the operands begin.
template <int kPack, int N>
bool lies_in_packs(const RowGeometry<N>& rows) {
  const std::int64_t length = rows.lengths[0];
  if (length % kPack != 0) return false;
  for (std::size_t n = 0; n < std::size_t(N); ++n) {
    if (rows.lengths[n] != length || rows.steps[n] != 1) return false;
    for (int d = 0; d < rows.outer.sizes.rank(); ++d)
      if (rows.outer.strides[n][d] % kPack != 0) return false;
  }
  return true;
}
template <class F, class Out, class... In, std::size_t... I>
bool lies_in_packs(const RowKernel<F, Out, In...>& kernel, std::index_sequence<I...>) {
  constexpr int kPack = kPackOf<Out, In...>;
  return lies_in_packs<kPack, 1 + sizeof...(In)>(kernel) && is_aligned<kPack>(kernel.out) &&
         (is_aligned<kPack>(static_cast<const In*>(kernel.in[I])) && ...);
}

/// A row is computed by at most one warp, if each thread then gets at most 128 bytes in the compute type; otherwise by
/// a block.
template <class F, class Out, class... In, std::size_t... I>
void enqueue_packs(const RowKernel<F, Out, In...>& kernel, const RowsOf<1 + sizeof...(In)>& of,
                   const KernelContext& context, std::index_sequence<I...>) {
  constexpr int kPack = kPackOf<Out, In...>;
  constexpr int kFew = std::max(1, 8 / kPack), kMany = 128 / int(sizeof(ComputeType<Out>)) / kPack;
  const std::int64_t packs = of.lengths[0] / kPack;
  const int lanes = int(std::bit_ceil(std::uint64_t(std::min<std::int64_t>(packs, kWarp))));
  const TeamShape shape{packs <= kMany * kWarp ? lanes : kThreads, 1};
  const std::int64_t of_thread = (packs + shape.size - 1) / shape.size;
  auto* rows = rows_in_packs<kPack, 0, F, Out, In...>();
  if (of_thread <= kFew)
    rows = rows_in_packs<kPack, kFew, F, Out, In...>();
  else if (of_thread <= kMany)
    rows = rows_in_packs<kPack, kMany, F, Out, In...>();
  launch_grid(rows, dim3(blocks_for(of.rows, shape.rows())), kThreads, context, kernel.f, shape, of, kernel.out,
              static_cast<const In*>(kernel.in[I])...);
}

}  // namespace lockstep::gpu
