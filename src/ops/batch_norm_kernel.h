// Batch norm on a GPU. Two grids compute the sums of each channel, for the statistics or for a gradient: the first over
// pieces of the elements, the second over the pieces (ops/batch_norm_cuda.h). An elementwise kernel then computes the
// result. These kernels have no host form: on the host, the backend's fused operation does it all
// (cpu/fused_batch_norm.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <lockstep/kernels/row_team.h>

#include "kernels/launch.h"

namespace lockstep {

/// The sizes of images as [outer, channels, inner]. For channels-last images outer counts pixels, and inner is 1.
struct ChannelExtent {
  std::int64_t outer = 0, channels = 0, inner = 1;

  bool by_rows() const { return inner == 1 && channels > 1; }
  LOCKSTEP_HD std::int64_t count() const { return outer * inner; }  ///< Elements of a channel.
};

/// The elements of each channel, divided into pieces. A piece has neighbouring rows if the channels are last; otherwise
/// it has neighbouring packs (vectors of up to 16 bytes) of the channel's planes.
struct ChannelPieces {
  ChannelExtent extent;
  int pack = 1;             ///< Neighbouring elements in one load of a thread.
  int beside = 1;           ///< The number of neighbouring threads that take neighbouring packs of channels.
  std::int64_t length = 0;  ///< Rows if channels are last, otherwise packs in all planes of a channel.
  std::int64_t piece = 0;   ///< Length of a piece, in the same unit.
  std::int64_t pieces = 1;

  static constexpr int kThreads = 256;

  /// Uses packs of `pack_` elements if alignment and sizes allow it.
  ChannelPieces(const ChannelExtent& of, int pack_, bool aligned) : extent(of) {
    const bool rows = of.by_rows();
    if (aligned && (rows ? of.channels : of.inner) % pack_ == 0) pack = pack_;
    while (rows && beside < 32 && beside * pack < of.channels) beside *= 2;
    length = rows ? of.outer : of.count() / pack;
    constexpr std::int64_t kEnoughBlocks = 1024, kSteps = 16;  // blocks that fill a GPU; least steps of a thread
    const std::int64_t most = length / (kSteps * kThreads / beside);
    const std::int64_t wanted =
        std::clamp<std::int64_t>(kEnoughBlocks / blocks_across(), 1, std::max<std::int64_t>(1, most));
    piece = (length + wanted - 1) / wanted;
    pieces = (length + piece - 1) / piece;
  }
  std::int64_t blocks_across() const {
    return extent.by_rows() ? (extent.channels / pack + beside - 1) / beside : extent.channels;
  }
  /// Elements of one channel in a piece.
  LOCKSTEP_HD std::int64_t count_of(std::int64_t p) const {
    const std::int64_t rest = length - p * piece, steps = rest < piece ? rest : piece;
    return extent.inner == 1 && extent.channels > 1 ? steps : steps * pack;
  }
};

/// The number of elements, their mean, and the sum of squared distances from the mean.
struct ChannelMoments {
  double count = 0, mean = 0, squares = 0;

  /// The moments of two sets of elements together. Chan, Golub, LeVeque: "Algorithms for computing the sample
  /// variance", 1983.
  LOCKSTEP_HD friend ChannelMoments operator+(const ChannelMoments& a, const ChannelMoments& b) {
    if (b.count == 0) return a;
    const double all = a.count + b.count, distance = b.mean - a.mean, share = b.count / all;
    return {all, a.mean + distance * share, a.squares + b.squares + distance * distance * a.count * share};
  }
};

template <class Element>
struct BatchStatisticsKernel {
  using T = Element;
  using C = ComputeType<T>;
  using Total = ChannelMoments;
  static constexpr bool kIsGradient = false;

  ChannelPieces pieces;
  const T *x, *g = nullptr;
  C* partial;  // [pieces, 2, channels]: means, sums of squares
  double eps, momentum;
  const T *weight, *bias;              // or null
  C *mean, *variance, *scale, *shift;  // y = (x - mean) scale + shift
  T *running_mean, *running_variance;  // or null

  LOCKSTEP_HD Total total_of(std::int64_t piece, C first, C second) const {
    return {double(pieces.count_of(piece)), double(first), double(second)};
  }
  LOCKSTEP_HD void finish(std::int64_t c, const Total& of) const {
    const double spread = of.squares / of.count;
    mean[c] = C(of.mean);
    variance[c] = C(spread);
    scale[c] = C((weight ? double(C(weight[c])) : 1) / std::sqrt(spread + eps));
    shift[c] = bias ? C(bias[c]) : C(0);
    if (running_mean) move(running_mean[c], of.mean);
    if (running_variance) move(running_variance[c], of.squares / (of.count - 1));
  }

 private:
  LOCKSTEP_HD void move(T& running, double now) const {
    running = T(C((1 - momentum) * double(C(running)) + momentum * now));
  }
};

template <class Element>
struct BatchGradientKernel {
  using T = Element;
  using C = ComputeType<T>;
  using Total = TwoSums<double>;
  static constexpr bool kIsGradient = true;

  ChannelPieces pieces;
  const T *x, *g;
  C* partial;  // [pieces, 2, channels]: sums of g, and of g times the distance from the mean
  double eps;
  const T* weight;  // or null
  const C *mean, *variance;
  T *of_weight, *of_bias;
  C *scale, *shift, *slope;  // of x's gradient: scale (g - shift - (x - mean) slope)

  LOCKSTEP_HD Total total_of(std::int64_t, C first, C second) const { return {double(first), double(second)}; }
  LOCKSTEP_HD void finish(std::int64_t c, const Total& of) const {
    const double inverse = 1 / std::sqrt(double(variance[c]) + eps), count = double(pieces.extent.count());
    of_weight[c] = T(C(of.second * inverse));
    of_bias[c] = T(C(of.first));
    scale[c] = C((weight ? double(C(weight[c])) : 1) * inverse);
    shift[c] = C(of.first / count);
    slope[c] = C(of.second * inverse * inverse / count);
  }
};

/// Computes the elements of y or of x's gradient from the scale, shift and slope that finish() stored.
struct BatchNormalize {
  template <class C>
  LOCKSTEP_HD C operator()(C x, C mean, C scale, C shift) const {
    return (x - mean) * scale + shift;
  }
};
struct BatchNormalizeGradient {
  template <class C>
  LOCKSTEP_HD C operator()(C g, C x, C mean, C scale, C shift, C slope) const {
    return scale * (g - shift - (x - mean) * slope);
  }
};
/// Normalizes with given statistics.
template <class C>
struct BatchNormalizeBy {
  C eps;
  bool weighted, biased;
  LOCKSTEP_HD C operator()(C x, C mean, C variance, C weight, C bias) const {
    const C scale = (weighted ? weight : C(1)) / std::sqrt(variance + eps);
    return (x - mean) * scale + (biased ? bias : C(0));
  }
};

}  // namespace lockstep

#ifdef LOCKSTEP_DEVICE_FORMS
#include "ops/batch_norm_cuda.h"
#endif
