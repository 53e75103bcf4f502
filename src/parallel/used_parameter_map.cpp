#include "parallel/used_parameter_map.h"

namespace lockstep {
namespace {

constexpr const char* kWhat = "the end of a backward";

}  // namespace

void UsedParameterMap::publish(const std::vector<bool>& used) {
  own_.assign(used.begin(), used.end());
  for (int p = 0; p < transport_->size(); ++p) {
    if (p == transport_->rank()) continue;
    std::string& other = others_[std::size_t(p)];
    other.resize(own_.size());
    arriving_.push_back(transport_->receive(p, channel_, other.data(), other.size()));
    sent_.push_back(transport_->send(p, channel_, own_.data(), own_.size()));
  }
}

std::vector<bool> UsedParameterMap::collect(std::size_t count) {
  if (own_.empty()) return std::vector<bool>(count);
  for (const PendingMessage& message : arriving_) message->wait(kWhat);
  for (const PendingMessage& message : sent_) message->wait(kWhat);
  arriving_.clear();
  sent_.clear();
  std::vector<bool> found(count);
  for (std::size_t e = 0; e < count; ++e) {
    found[e] = own_[e];
    for (const std::string& other : others_) found[e] = found[e] || (!other.empty() && other[e]);
  }
  own_.clear();
  return found;
}

}  // namespace lockstep
