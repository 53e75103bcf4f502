#include "tensor/transient_memory.h"

#include <utility>
#include <vector>

#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

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

Tensor TransientMemory::converted(const Tensor&, DType) const { return {}; }

bool TransientMemory::stays() const noexcept { return false; }

std::uint64_t TransientMemory::version(const Storage& storage) const {
  return storage.version.load(std::memory_order_relaxed);
}

void keep_until_enqueued(std::shared_ptr<TransientOwner> owner, std::size_t number) {
  brought.all.emplace_back(std::move(owner), number);
  detail::has_brought_memory = true;
}

void make_permanent(const Tensor& tensor) {
  Storage& storage = *tensor.impl()->storage;
  if (!storage.transient) return;
  const Tensor own = make_tensor(*storage.device, tensor.sizes(), tensor.dtype());
  copy_values(own, tensor);
  swap_memory(storage, *own.impl()->storage);
}

void detail::let_brought_memory_go() noexcept {
  has_brought_memory = false;
  brought.let_go();
}

}  // namespace lockstep
