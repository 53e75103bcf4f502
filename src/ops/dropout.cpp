#include <lockstep/ops/dropout.h>

#include <cmath>

#include <lockstep/kernels/cuda/pack.h>

#include "core/text.h"
#include "cpu/parallel.h"
#include "kernels/launch.h"
#include "ops/dropout_mask.h"
#include "ops/dtypes.h"
#include "ops/record.h"
#include "tensor/random_kernel.h"

namespace lockstep {
namespace {

/// out = x * mask. Both are dense, of `count` elements.
template <class T>
struct DropoutKernel {
  static constexpr std::int64_t kGrain = 1 << 14;
  static constexpr std::int64_t kWords = 4 * kBlockLanes;

  const T* x;
  T* out;
  std::int64_t count;
  DropoutMask mask;

  void operator()(const KernelContext& context) const {
    host::vectorized_for(context, count, kGrain, [this](std::int64_t begin, std::int64_t end) {
      const GeneratorState start = mask.start.get();
      while (begin < end) {  // pieces that are contiguous in the whole batch
        const std::int64_t within = begin % mask.place.run;
        const std::int64_t piece = std::min(end - begin, mask.place.run - within);
        apply(start, begin, piece, begin / mask.place.run * mask.place.stride + mask.place.first + within);
        begin += piece;
      }
    });
  }

  // An item is four elements that share a block; or one element, if shards of the batch begin inside of blocks.
  std::int64_t items() const { return by_blocks() ? (count + 3) / 4 : count; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::int64_t first = by_blocks() ? 4 * i : i, most = by_blocks() ? 4 : 1;
    const bool together = mask.place.run >= count;  // then one run has all elements: no division is needed
    const std::int64_t run = together ? 0 : first / mask.place.run;
    const std::int64_t global = run * mask.place.stride + mask.place.first + first - run * mask.place.run;
    const GeneratorState start = mask.start.get();
    const PhiloxBlock block =
        philox(philox_counter(start.stream, start.offset + std::uint64_t(global / 4)), philox_key(start.seed));
    const auto value = [&](std::uint32_t word, const T& from) {
      return word < mask.threshold ? T(0) : T(ComputeType<T>(from) * ComputeType<T>(mask.scale));
    };
    if (most == 4 && first + 4 <= count && gpu::is_aligned<4>(x) && gpu::is_aligned<4>(out)) {
      const gpu::Pack<T, 4> from = gpu::load_pack<4>(x + first);
      gpu::Pack<T, 4> to;
      gpu::unrolled<4>([&](int k) { to.values[k] = value(block.words[k], from.values[k]); });
      gpu::store_pack(out + first, to);
      return;
    }
    for (int k = 0; k < most && first + k < count; ++k)
      out[first + k] = value(word_at(block, int((global + k) % 4)), x[first + k]);
  }

 private:
  LOCKSTEP_HD bool by_blocks() const {
    return mask.place.first % 4 == 0 &&
           (mask.place.run >= count || (mask.place.run % 4 == 0 && mask.place.stride % 4 == 0));
  }

  // Selects by comparison: a variable index would force the words into memory.
  LOCKSTEP_HD static std::uint32_t word_at(const PhiloxBlock& block, int at) {
    const std::uint32_t low = at == 0 ? block.words[0] : block.words[1],
                        high = at == 2 ? block.words[2] : block.words[3];
    return at < 2 ? low : high;
  }

  // Applies the mask to elements [at, at + length). The first of them is element `global` of the whole batch.
  void apply(const GeneratorState& start, std::int64_t at, std::int64_t length, std::int64_t global) const {
    const auto scale = ComputeType<T>(mask.scale);
    std::uint32_t words[4][kBlockLanes], in_order[kWords];
    for (const std::int64_t end = at + length; at < end;) {
      const std::int64_t skip = global % 4, taken = std::min(end - at, kWords - skip);
      const int blocks = int((skip + taken + 3) / 4);
      make_blocks(start, std::uint64_t(global / 4), blocks, words);
      for (int lane = 0; lane < blocks; ++lane)
        for (int i = 0; i < 4; ++i) in_order[4 * lane + i] = words[i][lane];
      for (std::int64_t i = 0; i < taken; ++i)
        out[at + i] = in_order[skip + i] < mask.threshold ? T(0) : T(ComputeType<T>(x[at + i]) * scale);
      at += taken;
      global += taken;
    }
  }
};

}  // namespace

DropoutMask dropout_mask(double p, const Shape& sizes) {
  return {{}, place_in_batch(sizes), std::uint64_t(std::llround(p * 0x1p32)), p < 1 ? 1 / (1 - p) : 0};
}

DropoutDraw draw_dropout(DeviceState& device, const DropoutMask& mask) {
  const DeviceDraw drawn = draw_for_batch_on(device);
  DropoutDraw draw = {mask, drawn.memory};
  draw.mask.start = drawn.start;
  return draw;
}

Tensor apply_dropout(const Tensor& x, const DropoutDraw& draw) {
  const Tensor from = x.contiguous();
  const TensorImpl& impl = *from.impl();
  Tensor out = make_tensor(*impl.storage->device, impl.sizes, impl.dtype);
  visit_floating("dropout", impl.dtype, [&]<class T>() {
    const DropoutKernel<T> kernel{reinterpret_cast<const T*>(impl.data()), reinterpret_cast<T*>(out.impl()->data()),
                                  impl.numel, draw.mask};
    if (impl.numel == 0) return;
    launch("dropout", double(impl.numel), out, std::array{&from, &draw.memory}, kernel);
  });
  if (records(x)) record("Dropout", out, {&x}, [draw](const Tensor& g) { return Gradients{apply_dropout(g, draw)}; });
  return out;
}

Tensor dropout(const Tensor& x, double p, bool training) {
  const TensorImpl& impl = impl_of("dropout", x);
  check_floating("dropout", x);
  if (!(p >= 0 && p <= 1)) throw InvalidArgument(text("[dropout] expected a probability from 0 to 1, got ", p));
  if (!training || p == 0) return x;
  return apply_dropout(x, draw_dropout(*impl.storage->device, dropout_mask(p, impl.sizes)));
}

}  // namespace lockstep
