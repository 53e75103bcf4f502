// The slots of exchanges (parallel/unit_exchange.h): which is free for the next exchange, and their memory.
#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "parallel/unit_exchange.h"
#include "parallel/unit_parts.h"
#include "runtime/registry.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kPatience(50), kPatienceWithCopies(200), kPatienceForRoom(500),
    kLongestBeforePass(1000);
constexpr std::chrono::microseconds kBetweenAttempts(2000);

}  // namespace

// A thread that waits for what is in a slot takes it first, and so does a device in a pass. If memory is short, a
// device that has not come yet, or a thread that must not copy yet, asks again.
bool ParameterUnits::Exchange::is_free(const Slot& slot) const {
  if (!slot.piece) return true;
  if (awaited_.contains(*slot.piece)) return false;
  if (is_short_of_memory_) return true;
  if (waits_to_copy_.contains(*slot.piece)) return false;
  return awaits_others_ || std::ranges::find(slot.passed, false) == slot.passed.end();
}

void ParameterUnits::Exchange::note_idle_devices() {
  for (const Slot& slot : slots_)
    for (std::size_t d = 0; d < slot.passed.size() && slot.piece; ++d)
      if (!slot.passed[d]) is_idle_[d] = true;
}

// An exchange must not wait on streams for copies out of a slot: these wait for work of the device, which may wait for
// a sum to which another process contributes only after the exchange. So the host asks whether they have ended.
bool ParameterUnits::Exchange::is_copied(const Slot& slot) {
  return std::ranges::all_of(slot.copies, &cuda::Event::query);
}

// The bytes of the piece's parts on a device: on that whose parts have the most elements of it.
std::size_t ParameterUnits::Exchange::bytes_in_slot(const Piece& piece) const {
  std::int64_t most = 0;
  for_parts_by_device(units_.units_[piece.unit].part, piece.begin, piece.size, streams_.size(),
                      [&](std::size_t, std::int64_t, std::int64_t, std::int64_t in_device, std::int64_t count) {
                        most = std::max(most, in_device + count);
                      });
  return std::size_t(most) * size_of(piece.dtype);
}

bool ParameterUnits::Exchange::is_in_common_slot(const Piece& piece) const {
  return std::ranges::any_of(slots_, [&](const Slot& slot) { return slot.piece == piece; });
}

// True if there is another slot out of which no copies are pending. It is for the next exchange: what the copies wait
// for may wait for another process, and that for the exchange.
bool ParameterUnits::Exchange::may_copy(const Piece& piece) {
  if (!is_in_common_slot(piece) || !is_copied(*find(piece))) return true;
  return std::size_t(std::ranges::count_if(slots_, is_copied)) > 1;
}

// The slot that has been free for the longest of those out of which no copies are pending; null if there is none for
// some time.
ParameterUnits::Exchange::Slot* ParameterUnits::Exchange::find_free_slot(Lock& lock) {
  for (const Clock::time_point begin = Clock::now(); !has_failed_;) {
    Slot* best = nullptr;
    bool is_any_free = false;
    for (Slot& each : slots_) {
      if (!is_free(each)) continue;
      is_any_free = true;
      if ((!best || each.number < best->number) && is_copied(each)) best = &each;
    }
    if (best) return best;
    if (Clock::now() > begin + (is_any_free ? kPatienceWithCopies : kPatience)) {
      if (!is_any_free) note_idle_devices();
      return nullptr;
    }
    changed_.wait_until(lock, Clock::now() + (is_any_free ? kBetweenQuestions : std::chrono::microseconds(kPatience)));
  }
  return nullptr;
}

void ParameterUnits::Exchange::free_extra_slots(const Slot* but_for) {
  for (std::size_t d = 0; d < places_.size(); ++d)
    if (places_[d] == Place::before_pass && since_[d] + kLongestBeforePass < Clock::now()) set_place(d, Place::outside);
  std::size_t extra = slots_.size() - (units_.buffers_ + 1);
  std::erase_if(slots_, [&](const Slot& each) {
    const bool goes = extra > 0 && &each != but_for && is_free(each) && is_copied(each);
    extra -= goes;
    return goes;
  });
}

// Single parameters in slots of their own go if they are free, until they take at most so many bytes on each device.
void ParameterUnits::Exchange::free_singles(std::size_t most) {
  const auto bytes_of = [](const Slot& single) { return single.shares[0].impl()->storage->bytes; };
  std::size_t bytes = 0;
  for (const Slot& single : singles_) bytes += bytes_of(single);
  std::erase_if(singles_, [&](const Slot& each) {
    if (bytes <= most || !is_free(each) || !is_copied(each)) return false;
    bytes -= bytes_of(each);
    return true;
  });
}

// Calls make(), which may throw NoRoom, until there is room. It comes when devices have copied what they were to copy;
// so the host waits for work of devices only if it does not come for some time. Throws OutOfMemory.
void ParameterUnits::Exchange::when_there_is_room(Lock& lock, const std::function<void()>& make) {
  int waits = 0;
  for (const Clock::time_point begin = Clock::now();;) {
    try {
      make();
      is_short_of_memory_ = false;
      if (!has_failed_) return;
    } catch (const NoRoom& missing) {
      is_short_of_memory_ = true;
      if (Clock::now() < begin + kPatienceForRoom) {
        changed_.wait_until(lock, Clock::now() + kBetweenAttempts);
      } else {
        if (waits++ == NoRoom::kMostTries) std::rethrow_exception(missing.error);
        lock.unlock();
        try {
          missing.make();
        } catch (OutOfMemory& error) {
          error.add_context("for parameters of other processes");
          throw;
        }
        lock.lock();
      }
    }
    if (has_failed_)
      throw CollectiveError(int(units_.process_), "exchange of sharded parameters", 0, "a process has failed");
  }
}

// Gives the slot at least that much memory on each device. Throws NoRoom.
void ParameterUnits::Exchange::fit(Slot& slot, std::size_t bytes_each) const {
  slot.piece.reset();
  slot.shares.resize(streams_.size());
  for (std::size_t d = 0; d < streams_.size(); ++d) {
    Tensor& share = slot.shares[d];
    if (share.defined() && share.impl()->storage->bytes >= bytes_each) continue;
    share = Tensor();
    share = make_without_waiting(streams_[d], std::int64_t(bytes_each), kUInt8);
  }
  slot.copies.clear();
  slot.full.clear();
}

void ParameterUnits::Exchange::reserve_slots(Lock& lock, std::size_t bytes_each) {
  std::vector<std::vector<Tensor>> made(units_.buffers_ + 1);
  lock.unlock();
  for (std::vector<Tensor>& shares : made)
    for (const Stream& stream : streams_) {
      const StreamGuard on(stream);
      shares.push_back(make_tensor(device_state(stream.device()), {std::int64_t(bytes_each)}, kUInt8));
    }
  lock.lock();
  reserved_ = std::move(made);
}

// Gives the reserved memory to slots that have none.
void ParameterUnits::Exchange::take_reserved() {
  for (Slot& slot : slots_) {
    if (!slot.shares.empty() || reserved_.empty()) continue;
    slot.shares = std::move(reserved_.back());
    reserved_.pop_back();
  }
  reserved_.clear();
}

void ParameterUnits::Exchange::renew_slots() {
  for (const Slot& slot : slots_) wait_for_copies(slot);
  slots_ = std::list<Slot>(units_.buffers_ + 1);
  take_reserved();
}

// An empty slot for a single parameter alone; null if there is no memory for it. Such slots take at most half as much
// as a common one, if the others are free.
ParameterUnits::Exchange::Slot* ParameterUnits::Exchange::single_slot(std::size_t bytes_each) {
  const std::size_t half = slot_bytes() / 2;
  for (const std::size_t most : {half - std::min(half, bytes_each), std::size_t(0)}) {
    free_singles(most);
    try {
      std::list<Slot> another(1);
      fit(another.front(), bytes_each);
      singles_.splice(singles_.end(), another);
      return &singles_.back();
    } catch (const NoRoom&) {  // the second time all free ones have gone
    }
  }
  return nullptr;
}

// An empty slot, which is not copied any more. If no slot becomes free, because devices need units in different orders,
// makes another one: it goes when it is free.
ParameterUnits::Exchange::Slot& ParameterUnits::Exchange::slot_for(Lock& lock, const Piece& piece) {
  if (!units_.is_whole(piece))
    if (Slot* const own = single_slot(bytes_in_slot(piece))) return *own;
  Slot* slot = nullptr;
  when_there_is_room(lock, [&] {
    slot = find_free_slot(lock);
    free_extra_slots(slot);
    if (slot) return fit(*slot, slot_bytes());
    std::list<Slot> another(1);
    fit(another.front(), slot_bytes());
    slots_.splice(slots_.end(), another);
    slot = &slots_.back();
  });
  return *slot;
}

}  // namespace lockstep
