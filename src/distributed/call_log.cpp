#include "distributed/call_log.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "distributed/same_lines.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxCalls = 256;  // the maximum number of calls that are kept as text between comparisons

}  // namespace

void CallLog::add(std::string call) {
  const std::scoped_lock lock(mutex_);
  hash_ += std::hash<std::string>()(call);
  if (calls_.size() == kMaxCalls) calls_.pop_front();
  calls_.push_back(std::move(call));
}

std::uint64_t CallLog::hash() const {
  const std::scoped_lock lock(mutex_);
  return hash_;
}

void CallLog::clear() {
  const std::scoped_lock lock(mutex_);
  calls_.clear();
  hash_ = 0;
}

std::string CallLog::all() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> sorted(calls_.begin(), calls_.end());
  std::ranges::sort(sorted);
  std::string all;
  for (const std::string& call : sorted) all += call;
  return all;
}

void CallLog::compare(std::string_view expected, const char* what) {
  const std::string mine = all();
  clear();
  world_.agree(mine, what,
               [&](const std::vector<std::string>& of_each) { expect_same_lines(expected, world_, of_each); });
}

}  // namespace lockstep
