// Convolutions.
#include <lockstep/ops/conv.h>

#include "reference/rows.h"

namespace lockstep::reference {
namespace {

// One number, or a list of them; `otherwise` if it is omitted.
PerDimension numbers(const Call& c, const char* name, std::int64_t otherwise) {
  const Json value = c.arg<Json>(name, otherwise);
  if (!value.is_array()) return value.get<std::int64_t>();
  Shape each;
  for (const std::int64_t number : value.get<std::vector<std::int64_t>>()) each.push_back(number);
  return each;
}

Tensor bias_of(const Call& c) { return c.inputs().size() > 2 ? c[2] : Tensor(); }

ConvOptions conv_options(const Call& c) {
  return {.stride = numbers(c, "stride", 1),
          .padding = c.arg<std::int64_t>("padding", 0),
          .dilation = numbers(c, "dilation", 1),
          .groups = c.arg<std::int64_t>("groups", 1)};
}

ConvTransposeOptions transpose_options(const Call& c) {
  return {.stride = numbers(c, "stride", 1),
          .padding = numbers(c, "padding", 0),
          .output_padding = numbers(c, "output_padding", 0),
          .groups = c.arg<std::int64_t>("groups", 1),
          .dilation = numbers(c, "dilation", 1)};
}

}  // namespace

void add_conv_rows(Table& table) {
  table.merge(Table{
      {"conv1d", [](const Call& c) { return conv1d(c[0], c[1], bias_of(c), conv_options(c)); }},
      {"conv2d", [](const Call& c) { return conv2d(c[0], c[1], bias_of(c), conv_options(c)); }},
      {"conv3d", [](const Call& c) { return conv3d(c[0], c[1], bias_of(c), conv_options(c)); }},
      {"conv_transpose2d",
       [](const Call& c) { return conv_transpose2d(c[0], c[1], bias_of(c), transpose_options(c)); }},
  });
}

}  // namespace lockstep::reference
