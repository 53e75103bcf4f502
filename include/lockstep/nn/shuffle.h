// Layers that move elements between channels and pixels. The functions of the same names in lockstep/ops/shuffle.h
// document them.
#pragma once

#include <cstdint>

#include <lockstep/nn/module.h>
#include <lockstep/ops/shuffle.h>

namespace lockstep::nn {

struct LOCKSTEP_API PixelShuffle : Module<PixelShuffle> {
  explicit PixelShuffle(std::int64_t upscale_factor) : factor(upscale_factor) {}
  std::int64_t factor;  ///< See pixel_shuffle().
  auto members() { return nn::members("factor", factor); }
  Tensor forward(const Tensor& x) const { return pixel_shuffle(x, factor); }
};

struct LOCKSTEP_API PixelUnshuffle : Module<PixelUnshuffle> {
  explicit PixelUnshuffle(std::int64_t downscale_factor) : factor(downscale_factor) {}
  std::int64_t factor;  ///< See pixel_unshuffle().
  auto members() { return nn::members("factor", factor); }
  Tensor forward(const Tensor& x) const { return pixel_unshuffle(x, factor); }
};

struct LOCKSTEP_API ChannelShuffle : Module<ChannelShuffle> {
  explicit ChannelShuffle(std::int64_t count) : groups(count) {}
  std::int64_t groups;
  auto members() { return nn::members("groups", groups); }
  Tensor forward(const Tensor& x) const { return channel_shuffle(x, groups); }
};

}  // namespace lockstep::nn
