// Kernels that process rows on a GPU, if the rows of all operands are dense, equally long and aligned to 16 bytes. The
// threads that share a row (its team) read and write packs: vectors of up to 16 bytes. A row that fits into its team's
// registers is read once.
#pragma once

#include <algorithm>
#include <array>
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

/// A row of an input. The team loads its thread's current packs, one load for each, before it visits their elements: a
/// compiler neither merges loads of single elements nor moves them before a store.
template <int kPack, int kCurrent, class T>
struct ReadRow {
  using Element = T;

  const T* data;
  std::int64_t length;
  const Pack<T, kPack>* current;  // the pack of a slot is number slot % kCurrent

  __device__ T operator[](const PackPlace& at) const { return current[at.slot % kCurrent].values[at.k]; }
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
/// read(p, n) loads pack p of all operands as their current pack n; the compiler removes the loads that are not used.
/// Each pass over the row loads kCurrent packs of each operand before it uses the first.
template <int kPack, int kSlots, int kCurrent, class Read>
class PackTeam {
  static_assert(kSlots % kCurrent == 0);

 public:
  static constexpr bool kSerial = false;
  using Index = PackPlace;

  /// `length` is the length of the rows, a multiple of kPack. shape.beside must be 1: teams are not interleaved.
  __device__ PackTeam(TeamShape shape, bool idle, std::int64_t length, const Read& read)
      : team_(shape, idle, 0, 1),
        read_(read),
        step_(shape.size),
        first_(int(threadIdx.x) % shape.size),
        last_(int(length / kPack) - 1),
        packs_(idle ? 0 : last_ + 1) {}

  /// If `length` is 0, reduces no elements; otherwise the whole row, even if `length` is less.
  template <class A, class Step, class Combine>
  __device__ A reduce(std::int64_t length, A value, const Step& step, const Combine& combine) const {
    each_pack(length ? packs_ : 0, [&](int slot) {
      unrolled<kPack>([&](int k) { value = step(value, PackPlace{slot, k}); });
    });
    return team_.reduce(
        0, value, [](const A& same, std::int64_t) { return same; }, combine);
  }

  template <class Visit>
  __device__ void each(std::int64_t, const Visit& visit) const {
    each_pack(packs_, [&](int slot) { unrolled<kPack>([&](int k) { visit(PackPlace{slot, k}); }); });
  }

  template <class T>
  __device__ auto kept(const ReadRow<kPack, kCurrent, T>& row) const {
    if constexpr (kSlots == 0) {
      return row;
    } else {
      KeptRow<kPack, kSlots, T> kept = {row.length, {}};
      unrolled<kSlots>([&](int slot) {
        read_(at(first_, slot), slot % kCurrent);
        kept.packs[slot] = row.current[slot % kCurrent];
      });
      return kept;
    }
  }

  template <class T, class Value>
  __device__ void fill(const WrittenRow<kPack, T>& row, const Value& value) const {
    each_group(packs_, [&]<int kCount>(int pack, int slot) {
      Pack<T, kPack> elements[kCount];  // so that all are computed before the first is stored
      unrolled<kCount>([&](int n) {
        unrolled<kPack>([&](int k) { elements[n].values[k] = value(PackPlace{slot + n, k}); });
      });
      unrolled<kCount>([&](int n) {
        if (owns(pack + n * step_, packs_)) store_pack(row.data + std::int64_t(at(pack, n)) * kPack, elements[n]);
      });
    });
  }

  __device__ bool first() const { return team_.first(); }

 private:
  // The n-th of the thread's packs from `pack` on. If the row ends before it, the row's last pack: it is loaded and not
  // used, because a branch would separate the loads. (each_group() has no such packs if kSlots is 0.)
  __device__ int at(int pack, int n) const { return kSlots > 0 ? std::min(pack + n * step_, last_) : pack + n * step_; }

  // Loads this thread's packs in groups of kCount, of which at least one is among the first `packs`, and calls
  // visit.operator()<kCount>(pack, slot) after each group: its first pack, and the slot of that.
  template <class Visit>
  __device__ void each_group(int packs, const Visit& visit) const {
    if constexpr (kSlots > 0) {
      unrolled<kSlots / kCurrent>([&](int group) {
        const int pack = first_ + group * kCurrent * step_;
        if (pack >= packs) return;
        unrolled<kCurrent>([&](int n) { read_(at(pack, n), n); });
        visit.template operator()<kCurrent>(pack, group * kCurrent);
      });
    } else {
      int pack = first_;
      for (; pack + (kCurrent - 1) * step_ < packs; pack += kCurrent * step_) {
        unrolled<kCurrent>([&](int n) { read_(at(pack, n), n); });
        __syncwarp(__activemask());  // over which ptxas moves no load: it would move some behind the first uses
        visit.template operator()<kCurrent>(pack, 0);
      }
      for (; pack < packs; pack += step_) {
        read_(pack, 0);
        visit.template operator()<1>(pack, 0);
      }
    }
  }
  // True if the pack, which is in a group, is among the first `packs`.
  __device__ static bool owns(int pack, int packs) { return kSlots == 0 || pack < packs; }

  template <class Visit>
  __device__ void each_pack(int packs, const Visit& visit) const {
    each_group(packs, [&]<int kCount>(int pack, int slot) {
      unrolled<kCount>([&](int n) {
        if (owns(pack + n * step_, packs)) visit(slot + n);
      });
    });
  }

  RowTeam team_;
  const Read& read_;
  int step_, first_, last_, packs_;
};

/// True if f takes rows of any type, and so rows of packs.
template <class F, class Out, class... In>
inline constexpr bool kTakesPacks = [] {
  constexpr int kPack = kPackOf<Out, In...>;
  using AnyTeam = PackTeam<kPack, 0, 1, void (*)(std::int64_t, int)>;
  return std::is_invocable_v<const F&, const AnyTeam&, WrittenRow<kPack, Out>, ReadRow<kPack, 1, In>...>;
}();

/// How many packs of each operand a thread loads before it uses the first, so that four loads or more are in flight. If
/// kSlots is not 0, kept() loads the first input; these packs are those of the others.
template <int kSlots, int kInputs>
inline constexpr int kCurrentPacks = kSlots == 0    ? 4
                                     : kInputs == 1 ? 1
                                                    : std::min(kSlots, kInputs == 2 ? 4 : 2);

template <int kPack, int kSlots, class F, class Out, class... In, std::size_t... I>
__device__ void run_row_in_packs(const F& f, TeamShape shape, bool idle, std::int64_t length,
                                 const std::array<std::int64_t, 1 + sizeof...(In)>& at, std::index_sequence<I...>,
                                 Out* out, const In*... in) {
  constexpr int kCurrent = kCurrentPacks<kSlots, int(sizeof...(In))>;
  std::tuple<std::array<Pack<In, kPack>, kCurrent>...> current = {};
  const auto read = [&](std::int64_t pack, int n) {
    ((std::get<I>(current)[std::size_t(n)] = load_pack<kPack>(in + at[I + 1] + pack * kPack)), ...);
  };
  const PackTeam<kPack, kSlots, kCurrent, decltype(read)> team(shape, idle, length, read);
  f(team, WrittenRow<kPack, Out>{out + at[0], length},
    ReadRow<kPack, kCurrent, In>{in + at[I + 1], length, std::get<I>(current).data()}...);
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
/// The floats that a thread keeps, if it keeps all inputs.
template <int kPack, int kSlots, class... In>
inline constexpr int kKeptFloats = int(sizeof...(In)) * kSlots* kPack;

/// Limits a thread to 64 registers (4 blocks per multiprocessor), so that more threads have rows in flight; without the
/// limit nvcc would use more. If a thread loads packs of several inputs and keeps only one of them, or none, the limit
/// is 80 (3 blocks); without it nvcc would use more, or save registers by loading late.
template <int kPack, int kSlots, class F, class Out, class... In>
__global__ void __launch_bounds__(kThreads,
                                  (kSlots ? kKeptFloats<kPack, kSlots, In...> <= 32 : sizeof...(In) == 1) ? 4 : 3)
    run_rows_in_packs_of_few(const F f, const TeamShape shape, const RowsOf<1 + sizeof...(In)> of,
                             Out* __restrict__ out, const In*... in) {
  take_rows_in_packs<kPack, kSlots>(f, shape, of, out, in...);
}

/// True if a thread keeps few enough floats for the registers of run_rows_in_packs_of_few. Functions of three inputs
/// keep one of them.
template <int kPack, int kSlots, class... In>
inline constexpr bool kKeepsFew = (sizeof...(In) > 2 || kKeptFloats<kPack, kSlots, In...> <= 32) &&
                                  (std::is_same_v<ComputeType<In>, float> && ...);

template <int kPack, int kSlots, class F, class Out, class... In>
constexpr auto rows_in_packs() {
  if constexpr (kKeepsFew<kPack, kSlots, In...>)
    return run_rows_in_packs_of_few<kPack, kSlots, F, Out, In...>;
  else
    return run_rows_in_packs<kPack, kSlots, F, Out, In...>;
}

/// True if all rows are dense and equally long, and their length and strides are multiples of a pack. Does not check
/// where the operands begin. False for rows without packs, and for rows of so many that int cannot count them.
template <int kPack, int N>
bool lies_in_packs(const RowGeometry<N>& rows) {
  constexpr std::int64_t kMostPacks = 1 << 30;
  const std::int64_t length = rows.lengths[0], packs = length / kPack;
  if (length % kPack != 0 || packs == 0 || packs > kMostPacks) return false;
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
