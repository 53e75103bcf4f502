#include "tensor/transient_memory.h"

#include <utility>
#include <vector>

namespace lockstep {
namespace {

struct Brought {
  std::vector<std::pair<std::shared_ptr<TransientOwner>, std::size_t>> all;

  Brought() = default;
  Brought(const Brought&) = delete;
  Brought& operator=(const Brought&) = delete;
  ~Brought() { let_go(); }

  void let_go() noexcept {
    for (const auto& [owner, number] : all) owner->let_go(number);
    all.clear();
  }
};

thread_local Brought brought;

}  // namespace

thread_local constinit bool detail::has_brought_memory = false;

void keep_until_enqueued(std::shared_ptr<TransientOwner> owner, std::size_t number) {
  brought.all.emplace_back(std::move(owner), number);
  detail::has_brought_memory = true;
}

void detail::let_brought_memory_go() noexcept {
  has_brought_memory = false;
  brought.let_go();
}

}  // namespace lockstep
