#include <lockstep/data/batch_share.h>

#include <algorithm>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::data {

void BatchShare::check() const {
  if (processes < 1 || process < 0 || process >= processes || devices < 1)
    throw InvalidArgument(text("[BatchShare] expected 0 <= process < processes and devices >= 1, got process ", process,
                               " of ", processes, " with ", devices, " devices"));
}

RowRange BatchShare::rows(std::int64_t total) const noexcept {
  const std::int64_t all = std::int64_t(processes) * devices;
  const std::int64_t each = devices * (total / all + (total % all != 0));
  const std::int64_t first = std::min(process * each, total);
  return {.first = first, .count = std::min(each, total - first)};
}

}  // namespace lockstep::data
