#include "ops/batch_noise.h"

#include <lockstep/tensor/batch_shard.h>

#include "cpu/parallel.h"
#include "kernels/launch.h"
#include "tensor/random_kernel.h"
#include "tensor/replay_values.h"

namespace lockstep {
namespace {

/// Element i of the whole batch gets its number from word i % 4 of Philox block i / 4. `out` is dense.
template <class T>
struct BatchUniformKernel {
  static constexpr std::int64_t kGrain = 1 << 13;

  T* out;
  std::int64_t count;
  RandomStart random;
  BatchPlace place;
  float low, width;

  void operator()(const KernelContext& context) const {
    host::vectorized_for(context, count, kGrain, [this](std::int64_t begin, std::int64_t end) {
      const GeneratorState start = random.get();
      std::int64_t last = -1;
      PhiloxBlock block{};
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t global = in_batch(i);
        if (global / 4 != last) block = block_of(start, last = global / 4);
        out[i] = number(block, global);
      }
    });
  }

  std::int64_t items() const { return count; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    const std::int64_t global = in_batch(i);
    out[i] = number(block_of(random.get(), global / 4), global);
  }

 private:
  LOCKSTEP_HD std::int64_t in_batch(std::int64_t i) const {
    return i / place.run * place.stride + place.first + i % place.run;
  }
  LOCKSTEP_HD static PhiloxBlock block_of(const GeneratorState& start, std::int64_t index) {
    return philox(philox_counter(start.stream, start.offset + std::uint64_t(index)), philox_key(start.seed));
  }
  LOCKSTEP_HD T number(const PhiloxBlock& block, std::int64_t global) const {
    return T(normal_detail::fused(to_uniform(block.words[global % 4]), width, low));
  }
};

}  // namespace

Tensor uniform_for_batch(const char* op, const Tensor& x, double low, double high) {
  Tensor out = make_tensor(*x.impl()->storage->device, x.sizes(), x.dtype());
  const DeviceDraw draw = draw_for_batch_on(*out.impl()->storage->device);
  const std::int64_t count = out.impl()->numel;
  visit_floating(op, x.dtype(), [&]<class T>() {
    const BatchUniformKernel<T> kernel{reinterpret_cast<T*>(out.impl()->data()),
                                       count,
                                       draw.start,
                                       place_in_batch(x.sizes()),
                                       float(low),
                                       float(high - low)};
    if (count == 0) return;
    launch(op, double(count), out, std::array{&draw.memory}, kernel);
  });
  return out;
}

}  // namespace lockstep
