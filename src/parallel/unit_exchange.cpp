#include "parallel/unit_exchange.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>

#include "core/text.h"
#include "parallel/unit_parts.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"
#include "tensor/transient_memory.h"

namespace lockstep {
namespace {

using Command = OrderedCommands::Command;

constexpr Command kUpdate = {-1}, kPass = {-2};

// Elements of that dtype in a tensor of bytes.
Tensor elements_as(DType dtype, const Tensor& bytes, std::int64_t begin, std::int64_t count) {
  const Tensor view = make_view(bytes, {count}, {1}, begin);
  view.impl()->dtype = dtype;
  return view;
}

}  // namespace

ParameterUnits::Exchange::Exchange(ParameterUnits& units, std::span<const Device> devices,
                                   const CommunicatorOptions& options)
    : units_(units),
      communicator_(std::vector<Device>(devices.begin(), devices.end()), units.world_, options),
      slots_(units.buffers_ + 1),
      places_(devices.size(), Place::outside),
      since_(devices.size(), Clock::now()),
      is_idle_(devices.size(), false) {
  for (const Device& device : devices)
    streams_.push_back(StreamAccess::make(device, device_state(device).next_pooled_stream(StreamPool::exchanges)));
  commands_.emplace(units.world_, static_cast<OrderedCommands::Executor&>(*this), "exchange of sharded parameters");
}

void ParameterUnits::Exchange::leave() {
  {
    const std::scoped_lock lock(units_.mutex_);
    for (std::size_t d = 0; d < places_.size(); ++d) set_place(d, Place::outside);
  }
  commands_.reset();
  for (const Slot& slot : slots_) wait_for_copies(slot);
  for (const Slot& slot : singles_) wait_for_copies(slot);
}

void ParameterUnits::Exchange::wait_for_copies(const Slot& slot) const {
  for (const Stream& stream : streams_)
    for (const cuda::Event& copy : slot.copies) stream.wait(copy);
}

template <class F>
void ParameterUnits::Exchange::for_slots(const F& f) {
  for (Slot& slot : slots_) f(slot);
  for (Slot& slot : singles_) f(slot);
}

ParameterUnits::Exchange::Slot* ParameterUnits::Exchange::find(const Piece& piece) {
  Slot* found = nullptr;
  for_slots([&](Slot& slot) {
    if (slot.piece == piece) found = &slot;
  });
  return found;
}

void ParameterUnits::Exchange::has_taken(std::size_t d, const Piece& piece) {
  is_idle_[d] = false;
  const Slot* const used = find(piece);
  if (!used || used->passed[d]) return;
  for_slots([&](Slot& slot) {
    if (!slot.piece) return;
    if (&slot == used || slot.number + units_.buffers_ <= used->number) slot.passed[d] = true;
  });
  changed_.notify_all();
}

void ParameterUnits::Exchange::set_place(std::size_t d, Place place) {
  if (places_[d] == place) return;
  if (places_[d] == Place::outside && place != Place::outside)
    for_slots([&](Slot& slot) {
      if (slot.piece) slot.passed[d] = is_idle_[d];
    });
  places_[d] = place;
  since_[d] = Clock::now();
  place == Place::outside ? pass_all(d) : changed_.notify_all();
}

void ParameterUnits::Exchange::pass_all(std::size_t d) {
  for_slots([&](Slot& slot) {
    if (slot.piece) slot.passed[d] = true;
  });
  changed_.notify_all();
}

void ParameterUnits::Exchange::ask(const Piece& piece) {
  if (!asked_.insert(piece).second) return;
  commands_->want({std::int64_t(piece.unit), std::int64_t(piece.dtype), piece.begin, piece.size});
}

// Waits until done(), at most for the processes' time limit.
template <class Done>
void ParameterUnits::Exchange::wait(Lock& lock, const char* what, const Done& done) {
  const World& world = units_.world_;
  const auto end = Clock::now() + world.time_limit();
  if (!changed_.wait_until(lock, end, [&] { return has_failed_ || done(); })) {
    const std::string reason = text("process ", world.rank().value(), " on ", world.host(world.rank()), " waited ",
                                    world.time_limit().count(), " ms for ", what);
    lock.unlock();
    world.transport()->fail(reason);
    lock.lock();
    throw CollectiveError(world.rank().value(), "exchange of sharded parameters", 0, reason);
  }
  if (has_failed_) throw_failure();
}

// Throws an exception of its own in each thread, because backward adds the place to its message.
void ParameterUnits::Exchange::throw_failure() const {
  try {
    std::rethrow_exception(commands_->failure());
  } catch (const CollectiveError& error) {
    throw CollectiveError(error);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error);
  }
}

void ParameterUnits::Exchange::await(Lock& lock, const Piece& piece) {
  for (;;) {
    if (is_updating_)
      throw InvalidArgument(
          "[DataParallel] expected no use of whole parameters (Shard::parameters) while an optimizer changes them, got "
          "one: use them before or after Optimizer::step()");
    if (!find(piece)) await_exchange(lock, piece);
    if (may_copy(piece)) return;
    const auto waiting = waits_to_copy_.insert(piece);
    changed_.wait_until(lock, Clock::now() + kBetweenQuestions);
    waits_to_copy_.erase(waiting);
    if (has_failed_) throw_failure();
  }
}

void ParameterUnits::Exchange::await_exchange(Lock& lock, const Piece& piece) {
  int& waiting = ++awaited_[piece];
  const auto is_there = [&] { return find(piece) != nullptr; };
  const auto end = [&] {
    if (--waiting == 0) awaited_.erase(piece);
    changed_.notify_all();
  };
  try {
    ask(piece);
    while (!is_there()) {
      // If others needed many pieces at once, this one may have gone again.
      wait(lock, text("the parameters of bucket ", piece.unit, " from the other processes").c_str(),
           [&] { return is_there() || !asked_.contains(piece); });
      if (!is_there()) ask(piece);
    }
  } catch (...) {
    end();
    throw;
  }
  end();
}

void ParameterUnits::Exchange::begin_update(Lock& lock) {
  if (is_updating_) return;  // an update has failed
  commands_->want_together(kUpdate);
  awaits_others_ = true;
  changed_.notify_all();
  wait(lock, "the other processes to reach an update of sharded parameters", [this] { return is_updating_; });
  for (const Stream& stream : streams_) current_stream(stream.device()).wait(stream.record());
}

void ParameterUnits::Exchange::begin_pass(Lock& lock, std::size_t count) {
  if (std::ranges::any_of(slots_, [](const Slot& slot) { return slot.shares.empty(); }))
    reserve_slots(lock, slot_bytes());
  take_reserved();
  beginning_ = count;
  commands_->want_together(kPass);
  awaits_others_ = true;
  changed_.notify_all();
  wait(lock, "the other processes to reach a pass", [this, before = passes_] { return passes_ > before; });
}

void ParameterUnits::Exchange::end_update() {
  for (const Stream& stream : streams_) stream.wait(current_stream(stream.device()).record());
  is_updating_ = false;
  changed_.notify_all();
}

void ParameterUnits::Exchange::has_failed() noexcept {
  const std::scoped_lock lock(units_.mutex_);
  has_failed_ = true;
  changed_.notify_all();
}

void ParameterUnits::Exchange::execute(const Command& command) {
  Lock lock(units_.mutex_);
  if (command == kUpdate) {
    for (Slot& slot : slots_) slot.piece.reset();
    for (const Slot& slot : singles_) wait_for_copies(slot);
    singles_.clear();
    is_updating_ = true;
    awaits_others_ = false;
    return changed_.notify_all();
  }
  if (command == kPass) {  // from here on, so that this comes before the exchanges for the pass
    for (std::size_t d = 0; d < places_.size(); ++d) set_place(d, d < beginning_ ? Place::in_pass : Place::outside);
    ++passes_;
    awaits_others_ = false;
    return changed_.notify_all();
  }
  const Piece piece = {std::size_t(command[0]), DType(command[1]), command[2], command[3]};
  changed_.wait(lock, [&] { return has_failed_ || (!is_updating_ && piece.unit < units_.units_.size()); });
  if (has_failed_) return;
  gather(lock, piece);
  asked_.erase(piece);
  changed_.notify_all();
}

// This process's own parts go to the slot first, where they are converted if need be, and from there to the others.
void ParameterUnits::Exchange::gather(Lock& lock, const Piece& piece) {
  Slot& slot = slot_for(lock, piece);
  const NoGrad guard;
  const Unit& unit = units_.units_[piece.unit];
  const std::size_t devices = streams_.size(), element = size_of(piece.dtype);
  std::vector<Transfer> transfers;
  for_parts_by_device(
      unit.part, piece.begin, piece.size, devices,
      [&](std::size_t rank, std::int64_t within, std::int64_t, std::int64_t in_device, std::int64_t count) {
        const std::size_t d = rank % devices, from = rank / devices;
        const bool is_own = from == units_.process_;
        std::byte* const place = slot.shares[d].impl()->data() + std::size_t(in_device) * element;
        if (is_own) {
          const StreamGuard on(streams_[d]);
          copy_values(elements_as(piece.dtype, slot.shares[d], in_device, count),
                      elements(unit.shares[d], within, count));
        }
        for (std::size_t to = 0; to < units_.processes_; ++to)
          if (to != from)
            transfers.push_back({.from = int(rank),
                                 .to = int(to * devices + d),
                                 .send = is_own ? place : nullptr,
                                 .receive = to == units_.process_ ? place : nullptr,
                                 .count = std::size_t(count) * element});
      });
  communicator_.send_receive(streams_, transfers, kUInt8);
  for (const Stream& stream : streams_) slot.full.push_back(stream.record());
  slot.piece = piece;
  slot.number = ++exchanges_;
  slot.passed.clear();
  for (std::size_t d = 0; d < devices; ++d) slot.passed.push_back(places_[d] == Place::outside || is_idle_[d]);
}

}  // namespace lockstep
