#include "io/skipped_values.h"

#include <algorithm>
#include <iostream>

#include "core/text.h"
#include "io/safetensors_header.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxNamed = 8;

}  // namespace

void SkippedValues::report(const char* op, const std::string& file, const ReadOptions& options) const {
  if (options.on_skipped) {
    for (const auto& [name, what] : values_) options.on_skipped(name, what);
    return;
  }
  if (values_.empty()) return;
  std::string line = text('[', op, "] ", file, ": skipped, since no tensor can hold them: ");
  for (std::size_t i = 0; i < std::min(values_.size(), kMaxNamed); ++i)
    line += text(i > 0 ? ", " : "", safetensors::shown(values_[i].first), " (", values_[i].second, ')');
  if (values_.size() > kMaxNamed) line += text(", and ", values_.size() - kMaxNamed, " more");
  std::cerr << line + '\n';
}

}  // namespace lockstep
