#include <lockstep/ops/shuffle.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// x as [rest, C, H, W].
Tensor as_batch(const char* op, const Tensor& x, std::int64_t factor) {
  const Shape& sizes = impl_of(op, x).sizes;
  constexpr std::int64_t kMost = 1 << 30;  // its square fits 64 bits
  if (factor < 1 || factor > kMost)
    throw InvalidArgument(text("[", op, "] expected a factor from 1 to ", kMost, ", got ", factor));
  const int rank = sizes.rank();
  if (rank < 3) throw ShapeError(text("[", op, "] expected x of at least 3 dimensions, got ", sizes));
  std::int64_t images = 1;
  for (int d = 0; d < rank - 3; ++d) images *= sizes[d];
  return x.reshape({images, sizes[rank - 3], sizes[rank - 2], sizes[rank - 1]});
}

// images [rest, C, H, W] with the leading dimensions of x in place of `rest`.
Tensor in_dimensions_of(const Tensor& x, const Tensor& images) {
  Shape sizes = x.sizes();
  for (int d = 1; d <= 3; ++d) sizes[sizes.rank() - d] = images.sizes()[4 - d];
  return images.view(sizes);
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t factor) {
  const Tensor from = as_batch("pixel_shuffle", x, factor);
  const Shape& sizes = from.sizes();
  if (sizes[1] % (factor * factor) != 0)
    throw ShapeError(
        text("[pixel_shuffle] expected channels that are a multiple of ", factor, " squared, got ", x.sizes()));
  const std::int64_t channels = sizes[1] / factor / factor;
  const Tensor parts = from.view({sizes[0], channels, factor, factor, sizes[2], sizes[3]});
  const Shape shuffled = {sizes[0], channels, sizes[2] * factor, sizes[3] * factor};
  return in_dimensions_of(x, parts.permute({0, 1, 4, 2, 5, 3}).contiguous().view(shuffled));
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor) {
  const Tensor from = as_batch("pixel_unshuffle", x, factor);
  const Shape& sizes = from.sizes();
  if (sizes[2] % factor != 0 || sizes[3] % factor != 0)
    throw ShapeError(
        text("[pixel_unshuffle] expected spatial sizes that are multiples of ", factor, ", got ", x.sizes()));
  const std::int64_t height = sizes[2] / factor, width = sizes[3] / factor;
  const Tensor parts = from.view({sizes[0], sizes[1], height, factor, width, factor});
  const Shape channels = {sizes[0], sizes[1] * factor * factor, height, width};
  return in_dimensions_of(x, parts.permute({0, 1, 3, 5, 2, 4}).contiguous().view(channels));
}

Tensor channel_shuffle(const Tensor& x, std::int64_t groups) {
  const Shape& sizes = impl_of("channel_shuffle", x).sizes;
  if (groups < 1) throw InvalidArgument(text("[channel_shuffle] expected at least 1 group, got ", groups));
  if (sizes.rank() < 2 || sizes[1] % groups != 0)
    throw ShapeError(
        text("[channel_shuffle] expected x [N, C, ...] whose channels are a multiple of ", groups, ", got ", sizes));
  std::int64_t rest = 1;
  for (int d = 2; d < sizes.rank(); ++d) rest *= sizes[d];
  const Tensor parts = x.reshape({sizes[0], groups, sizes[1] / groups, rest});
  return parts.transpose(1, 2).contiguous().view(sizes);
}

}  // namespace lockstep
