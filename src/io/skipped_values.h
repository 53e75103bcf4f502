// SkippedValues: the values of a file that a reader skips because they are not tensors. One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/io/safetensors.h>

namespace lockstep {

class SkippedValues {
 public:
  void add(std::string name, std::string what) { values_.emplace_back(std::move(name), std::move(what)); }
  std::size_t size() const noexcept { return values_.size(); }
  /// Calls options.on_skipped for each; without that function, prints a line to standard error if there are any:
  /// "[load] x.pt: skipped, since no tensor can hold them: "args" ("argparse.Namespace")".
  void report(const char* op, const std::string& file, const ReadOptions& options) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace lockstep
