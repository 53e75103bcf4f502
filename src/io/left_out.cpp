#include "io/left_out.h"

#include <algorithm>
#include <iostream>

#include "core/text.h"
#include "io/safetensors_header.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostNamed = 8;

}  // namespace

void LeftOut::tell(const char* op, const std::string& file, const ReadOptions& options) const {
  if (options.left_out) {
    for (const auto& [name, what] : values_) options.left_out(name, what);
    return;
  }
  if (values_.empty()) return;
  std::string line = text('[', op, "] ", file, ": left out, as no tensor can hold them: ");
  for (std::size_t i = 0; i < std::min(values_.size(), kMostNamed); ++i)
    line += text(i > 0 ? ", " : "", safetensors::shown(values_[i].first), " (", values_[i].second, ')');
  if (values_.size() > kMostNamed) line += text(", and ", values_.size() - kMostNamed, " more");
  std::cerr << line + '\n';
}

}  // namespace lockstep
