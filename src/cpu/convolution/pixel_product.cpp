#include "cpu/convolution/pixel_product.h"

#include <algorithm>

#include <lockstep/core/vectorized.h>

#include "cpu/parallel.h"

namespace lockstep::host {

PixelProduct::PixelProduct(const Shape& x, const Shape& y, const FusedOp& op)
    : channels_(x[1]), out_channels_(y[1]), groups_(op.groups) {
  const int spatial = x.rank() - 2;
  for (int d = 0; d < spatial; ++d) {
    const auto at = std::size_t(3 - spatial + d);
    x_[at] = x[d + 2];
    y_[at] = y[d + 2];
    stride_[at] = op.stride[d];
    padding_[at] = op.padding[d];
  }
  gathers_ = x_ != y_ || padding_ != Numbers{};
}

void PixelProduct::run(std::int64_t images, const float* x, const float* y, float* weight, float* scratch) const {
  const std::int64_t pixels = images * y_[0] * y_[1] * y_[2];
  if (!gathers_) return multiply(pixels, x, y, weight, 0);
  for (std::int64_t first = 0; first < pixels; first += kPixels) {
    const std::int64_t count = std::min(kPixels, pixels - first);
    gather(x, first, count, scratch);
    multiply(count, scratch, y + first * out_channels_, weight, first == 0 ? 0 : 1);
  }
}

// Copies the pixels of x that belong to y's pixels [first, first + count) to `to`, with zeros for padding.
void PixelProduct::gather(const float* x, std::int64_t first, std::int64_t count, float* to) const {
  std::int64_t rest = first;
  Numbers at = {};
  for (std::size_t d = 3; d-- > 0; rest /= y_[d]) at[d] = rest % y_[d];
  for (std::int64_t image = rest; count > 0; --count, to += channels_) {
    std::int64_t pixel = image;
    bool inside = true;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t place = at[d] * stride_[d] - padding_[d];
      inside = inside && place >= 0 && place < x_[d];
      pixel = pixel * x_[d] + place;
    }
    if (inside)
      std::copy_n(x + pixel * channels_, channels_, to);
    else
      std::fill_n(to, channels_, 0.f);
    std::size_t d = 3;
    while (d-- > 0) {
      if (++at[d] < y_[d]) break;
      at[d] = 0;
      if (d == 0) ++image;
    }
  }
}

void PixelProduct::multiply(std::int64_t pixels, const float* x, const float* y, float* weight, double beta) const {
  if (groups_ == channels_ && groups_ == out_channels_) {  // depthwise: the loop over channels fills vectors
    if (beta == 0) std::fill_n(weight, channels_, 0.f);
    return vectorized([=, channels = channels_] {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        LOCKSTEP_IVDEP
        for (std::int64_t c = 0; c < channels; ++c) weight[c] += x[pixel * channels + c] * y[pixel * channels + c];
      }
    });
  }
  Matmul product;
  product.dtype = kFloat32;
  product.m = out_channels_ / groups_;
  product.n = channels_ / groups_;
  product.k = pixels;
  product.lda = out_channels_;
  product.ldb = channels_;
  product.ldc = product.n;
  product.transpose_a = true;
  product.beta = beta;
  for (std::int64_t group = 0; group < groups_; ++group) {
    product.a = y + group * product.m;
    product.b = x + group * product.n;
    product.c = weight + group * product.m * product.n;
    matmul_piece(product);
  }
}

}  // namespace lockstep::host
