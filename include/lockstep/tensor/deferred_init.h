// Memory that comes late: large models that are never whole in the memory of the host.
//
//   const auto make = [&] { const DeferredInit deferred; return Gpt(config); };
//   DataParallel model(make(), {.shard = Shard::parameters});  // made bucket by bucket
#pragma once

#include <lockstep/core/export.h>

namespace lockstep {

/// While it lives, tensors that this thread makes on the CPU by empty(), full(), rand() and the like get their memory
/// when they are first used. Until then they keep what makes their values, if that is one of: fill_(), zero_(),
/// uniform_(), normal_() and the functions of nn::init that call these, of the tensor or a view of it. The values are
/// those that they would have had at once: random numbers are drawn from the sequence when uniform_() is called.
///
/// A copy to other memory, as by to(device) and by DataParallel, makes the values for the copy alone: the tensor goes
/// on without memory. (A copy on the CPU that is made under this guard is too.) Any other use gives it memory that
/// stays. OutOfMemory then comes from that use. Several threads may use such a tensor at once, as any other.
class LOCKSTEP_API DeferredInit {
 public:
  DeferredInit() noexcept;
  ~DeferredInit();
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

 private:
  const bool outer_;
};

}  // namespace lockstep
