#include "autograd/listeners.h"

#include <algorithm>

#include <lockstep/core/error.h>

#include "autograd/meta.h"

namespace lockstep::autograd {

void refuse_stale(const Tensor& leaf) {
  const Meta* const meta = meta_of(leaf);
  if (meta && meta->replica && meta->replica->parameter->is_stale() && meta->replica->index > 0)
    throw AutogradError(
        "[backward] this graph was built by a DataParallel that was destroyed, or has replaced its replicas since: run "
        "forward again, then backward()");
}

void Listeners::add(const Tensor& leaf) {
  refuse_stale(leaf);
  const Replica* const replica = replica_of(leaf);
  if (!replica) return;
  std::shared_ptr<GradientListener> listener = replica->parameter->listener();
  if (!listener) return;
  auto heard = std::ranges::find(all_, listener, &Heard::listener);
  if (heard == all_.end()) heard = all_.insert(heard, {std::move(listener), {}});
  heard->leaves.push_back(replica);
}

void Listeners::begin(bool keeps_graph, bool meets) {
  try {
    for (; begun_ < all_.size(); ++begun_) all_[begun_].listener->begin(all_[begun_].leaves, keeps_graph, meets);
  } catch (...) {
    end(true);
    throw;
  }
}

Ahead Listeners::is_ahead(const Device& device) const {
  Ahead ahead = Ahead::none;
  for (std::size_t i = 0; i < begun_; ++i) ahead = std::max(ahead, all_[i].listener->is_ahead(device));
  return ahead;
}

std::exception_ptr Listeners::end(bool failed) noexcept {
  std::exception_ptr failure;
  const std::size_t begun = std::exchange(begun_, 0);
  for (std::size_t i = 0; i < begun; ++i) {
    try {
      all_[i].listener->end(failed);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  return failure;
}

}  // namespace lockstep::autograd
