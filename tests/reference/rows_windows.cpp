#include <lockstep/ops/fold.h>
#include <lockstep/ops/grid_sample.h>
#include <lockstep/ops/interpolate.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/pooling.h>
#include <lockstep/ops/shuffle.h>

#include "reference/rows.h"

namespace lockstep::reference {
namespace {

// Adds rows for one, two and three spatial dimensions.
template <class F>
void add_for_dims(Table& table, const std::string& name, const F& row) {
  for (const int dims : {1, 2, 3})
    table[name + std::to_string(dims) + "d"] = [row, dims](const Call& c) { return row(c, std::size_t(dims - 1)); };
}

PerDimension numbers(const Call& c, const std::string& name) {
  const Shape given = c.integers(name);
  return given.rank() == 1 ? PerDimension(given[0]) : PerDimension(given);
}

Outputs max_pooled(const Call& c, std::size_t dims) {
  constexpr decltype(&max_pool1d) kPools[] = {max_pool1d, max_pool2d, max_pool3d};
  return kPools[dims](c[0], numbers(c, "kernel_size"),
                      {.stride = numbers(c, "stride"),
                       .padding = numbers(c, "padding"),
                       .dilation = c.arg("dilation", 1),
                       .ceil_mode = c.arg("ceil_mode", false)});
}

Outputs averaged(const Call& c, std::size_t dims) {
  constexpr decltype(&avg_pool1d) kPools[] = {avg_pool1d, avg_pool2d, avg_pool3d};
  return kPools[dims](c[0], numbers(c, "kernel_size"),
                      {.stride = numbers(c, "stride"),
                       .padding = numbers(c, "padding"),
                       .ceil_mode = c.arg("ceil_mode", false),
                       .count_include_pad = c.flag("count_include_pad")});
}

Outputs normed(const Call& c, std::size_t dims) {
  constexpr decltype(&lp_pool1d) kPools[] = {lp_pool1d, lp_pool2d, lp_pool3d};
  return kPools[dims](c[0], c.number("norm_type"), numbers(c, "kernel_size"),
                      {.stride = numbers(c, "stride"), .ceil_mode = c.flag("ceil_mode")});
}

Outputs unpooled(const Call& c, std::size_t dims) {
  constexpr decltype(&max_unpool1d) kPools[] = {max_unpool1d, max_unpool2d, max_unpool3d};
  return kPools[dims](
      c[0], c[1], numbers(c, "kernel_size"),
      {.stride = numbers(c, "stride"), .padding = numbers(c, "padding"), .output_size = c.integers("output_size")});
}

Outputs adaptive_means(const Call& c, std::size_t dims) {
  constexpr decltype(&adaptive_avg_pool1d) kPools[] = {adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d};
  return kPools[dims](c[0], c.integers("output_size"));
}

Outputs adaptive_greatest(const Call& c, std::size_t dims) {
  constexpr decltype(&adaptive_max_pool1d) kPools[] = {adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d};
  return kPools[dims](c[0], c.integers("output_size"));
}

Outputs padded(const Call& c) {
  static const std::map<std::string, PadMode> kModes = {{"constant", PadMode::constant},
                                                        {"reflect", PadMode::reflect},
                                                        {"replicate", PadMode::replicate},
                                                        {"circular", PadMode::circular}};
  return pad(c[0], c.arg<std::vector<std::int64_t>>("pad"),
             {.mode = kModes.at(c.arg<std::string>("mode", "constant")), .value = c.arg("value", 0.0)});
}

FoldOptions fold_options(const Call& c) {
  FoldOptions options;
  if (c.has("dilation")) options.dilation = numbers(c, "dilation");
  if (c.has("padding")) options.padding = numbers(c, "padding");
  if (c.has("stride")) options.stride = numbers(c, "stride");
  return options;
}

Interpolation interpolation_of(const std::string& name) {
  static const std::map<std::string, Interpolation> kModes = {{"nearest", Interpolation::nearest},
                                                              {"nearest-exact", Interpolation::nearest_exact},
                                                              {"linear", Interpolation::linear},
                                                              {"bilinear", Interpolation::bilinear},
                                                              {"trilinear", Interpolation::trilinear},
                                                              {"bicubic", Interpolation::bicubic},
                                                              {"area", Interpolation::area}};
  return kModes.at(name);
}

Outputs interpolated(const Call& c) {
  InterpolateOptions options = {.mode = interpolation_of(c.arg<std::string>("mode")),
                                .align_corners = c.arg("align_corners", false),
                                .recompute_scale_factor = c.arg("recompute_scale_factor", false)};
  if (const Json factor = c.arg("scale_factor", Json()); factor.is_number())
    options.scale_factor = factor.get<double>();
  else if (factor.is_array())
    options.scale_factor = factor.get<std::vector<double>>();
  else
    options.size = numbers(c, "size");
  return interpolate(c[0], options);
}

}  // namespace

void add_window_rows(Table& table) {
  add_for_dims(table, "max_pool", max_pooled);
  add_for_dims(table, "avg_pool", averaged);
  add_for_dims(table, "lp_pool", normed);
  add_for_dims(table, "max_unpool", unpooled);
  add_for_dims(table, "adaptive_avg_pool", adaptive_means);
  add_for_dims(table, "adaptive_max_pool", adaptive_greatest);
  table.merge(Table{
      {"channel_shuffle", [](const Call& c) { return channel_shuffle(c[0], c.integer("groups")); }},
      {"fold",
       [](const Call& c) { return fold(c[0], c.integers("output_size"), numbers(c, "kernel_size"), fold_options(c)); }},
      {"grid_sample",
       [](const Call& c) {
         const auto mode = c.arg<std::string>("mode"), padding = c.arg<std::string>("padding_mode");
         return grid_sample(c[0], c[1],
                            {.mode = mode, .padding_mode = padding, .align_corners = c.flag("align_corners")});
       }},
      {"interpolate", interpolated},
      {"local_response_norm",
       [](const Call& c) {
         return local_response_norm(c[0], c.integer("size"),
                                    {.alpha = c.number("alpha"), .beta = c.number("beta"), .k = c.number("k")});
       }},
      {"pad", padded},
      {"pixel_shuffle", [](const Call& c) { return pixel_shuffle(c[0], c.integer("upscale_factor")); }},
      {"pixel_unshuffle", [](const Call& c) { return pixel_unshuffle(c[0], c.integer("downscale_factor")); }},
      {"unfold", [](const Call& c) { return unfold(c[0], numbers(c, "kernel_size"), fold_options(c)); }},
  });
}

}  // namespace lockstep::reference
