#include <lockstep/ops/pooling.h>

#include "reference/rows.h"

namespace lockstep::reference {
namespace {

Outputs max_pooled(const Call& c) {
  return max_pool2d(c[0], c.integer("kernel_size"), {.stride = c.integer("stride"), .padding = c.integer("padding")});
}

Outputs averaged(const Call& c) {
  return avg_pool2d(c[0], c.integer("kernel_size"),
                    {.stride = c.integer("stride"),
                     .padding = c.integer("padding"),
                     .count_include_pad = c.flag("count_include_pad")});
}

}  // namespace

void add_window_rows(Table& table) {
  table.merge(Table{
      {"max_pool2d", max_pooled},
      {"avg_pool2d", averaged},
      {"adaptive_avg_pool2d", [](const Call& c) { return adaptive_avg_pool2d(c[0], c.integers("output_size")); }},
  });
}

}  // namespace lockstep::reference
