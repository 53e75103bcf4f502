// How units of parameters come into the buffers of devices, and go.
#include <algorithm>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "parallel/parameter_memory.h"
#include "parallel/parameter_units.h"
#include "parallel/unit_exchange.h"
#include "parallel/unit_parts.h"
#include "runtime/registry.h"
#include "runtime/reported_failures.h"
#include "tensor/copy.h"
#include "tensor/replay_values.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// The pieces whose addresses this thread has taken for an operation that is not enqueued yet.
struct Taken {
  const void* units;
  std::size_t device;
  ParameterUnits::Piece piece;
  std::uint64_t brought;
};
thread_local std::vector<Taken> taken;

template <class Is>
Taken* find_taken(const void* units, const Is& is) {
  const auto found = std::ranges::find_if(taken, [&](const Taken& each) { return each.units == units && is(each); });
  return found == taken.end() ? nullptr : &*found;
}

}  // namespace

void ParameterUnits::throw_gone(const Device& device) {
  throw InvalidArgument(text("[DataParallel] expected a parameter to stay on ", device,
                             " until the operation that uses it is enqueued, but it has gone: one thread at a time may "
                             "use and change the parameters of a model with Shard::parameters"));
}

void ParameterUnits::record_users(const Buffer& buffer) {
  if (!buffer.memory.defined()) return;
  for (const Stream& user : buffer.users) buffer.memory.record_stream(user);
}

// A stream that has failed skips copies. So what was brought before a failure was reported may not be there. (An
// operation that has taken its address already goes on: its stream has failed too, or it is part of a pass that has.)
void ParameterUnits::let_doubtful_go() {
  const std::uint64_t reported = reported_failures;
  if (failures_ == reported) return;
  bool is_change_lost = false, is_any_left = false;
  for (std::size_t d = 0; d < homes_.size(); ++d)
    for (std::vector<Buffer>* const buffers : {&homes_[d].buffers, &homes_[d].singles})
      for (Buffer& buffer : *buffers) {
        if (!buffer.piece || buffer.failures == reported) continue;
        if (buffer.kept > 0) {
          is_any_left = true;
          continue;
        }
        is_change_lost = is_change_lost || has_changed(d, buffer);
        buffer.piece.reset();
      }
  mark_converted_stale();
  if (!is_any_left) failures_ = reported;
  if (is_change_lost)
    throw InvalidArgument(
        "[DataParallel] expected no failure between a change of a sharded parameter by hand and the next pass or step, "
        "got one: the change may be lost. This is said once: change the parameters again, or load a state dict");
}

// Throws NoRoom.
Tensor ParameterUnits::make_without_waiting(const Stream& stream, std::int64_t elements, DType dtype) {
  const StreamGuard on(stream);
  try {
    return make_tensor(device_state(stream.device()), {elements}, dtype, MayWait::no);
  } catch (const OutOfMemory&) {
    throw NoRoom{stream, elements * std::int64_t(size_of(dtype)), std::current_exception()};
  }
}

// Waits until there is room, which then stays in the stream's cache. Throws OutOfMemory.
void ParameterUnits::NoRoom::make() const {
  const StreamGuard on(stream);
  make_tensor(device_state(stream.device()), {bytes}, kUInt8);
}

// If it fails, the operation ends.
std::byte* ParameterUnits::bring(const Memory& memory, DType dtype) try {
  use_in_step();
  Lock lock(mutex_);
  for (int attempt = 0;; ++attempt) {
    try {
      return bring(memory, dtype, lock);
    } catch (const NoRoom& missing) {
      if (attempt == NoRoom::kMostTries) std::rethrow_exception(missing.error);
      lock.unlock();
      missing.make();
    }
    lock.lock();
  }
} catch (...) {
  has_enqueued();
  throw;
}

std::byte* ParameterUnits::bring(const Memory& memory, DType dtype, Lock& lock) {
  const Place& place = memory.place;
  enter_step(place.device, current_stream(homes_[place.device].device));
  let_doubtful_go();
  Home& home = homes_[place.device];
  const auto may_empty_buffers = [&] {
    return home.buffers.size() > buffers_ || !home.singles.empty() || dtype != memory.dtype ||
           !find(place.device, piece_for(place, dtype));
  };
  if (exchange_ && place.device == 0 && may_empty_buffers()) keep_changes(lock);
  if (home.buffers.size() > buffers_) free_extra_buffers(place.device);
  if (!home.singles.empty()) free_singles(place.device);
  if (place.device == 0 && dtype != memory.dtype) write_changes_back(place.unit);
  const Piece piece = piece_for(place, dtype);
  Buffer* buffer = find(place.device, piece);
  Taken* const own =
      find_taken(this, [&](const Taken& each) { return each.device == place.device && each.piece == piece; });
  if (own && (!buffer || buffer->brought != own->brought)) throw_gone(home.device);
  if (!buffer && comes_from_others(piece)) {
    exchange_->await(lock, piece);
    buffer = find(place.device, piece);
  }
  if (!buffer) buffer = &fetch(place.device, piece);
  if (exchange_) exchange_->has_taken(place.device, piece);
  buffer->used = ++clock_;
  if (!own) {
    keep_until_enqueued(shared_from_this(), std::size_t(buffer->brought));
    taken.push_back({this, place.device, piece, buffer->brought});
    ++buffer->kept;
  }
  std::byte* const address = buffer->memory.impl()->data() + std::size_t(place.begin - piece.begin) * size_of(dtype);
  note_use(home, {&memory, dtype}, piece);
  note_conversion(home, piece);
  // Now, because the copies wait for all work enqueued so far that has used the buffer, and not yet for this operation.
  if (home.expects_another) bring_ahead(place.device);
  return address;
}

// Notes that the use follows the two before it.
void ParameterUnits::note_use(Home& home, const Use& use, const Piece& piece) {
  if (use == home.last) return;
  home.next.insert_or_assign({home.before_last, home.last}, use);
  home.before_last = std::exchange(home.last, use);
  if (is_whole(piece) && std::exchange(home.last_piece, piece) != piece) home.expects_another = true;
}

// Brings the unit that is expected next of those that have no buffer. It gets none of which the unit is in use or
// expected earlier: then it is brought ahead later, after other uses.
void ParameterUnits::bring_ahead(std::size_t d) {
  constexpr int kFarthest = 64;  // uses
  Home& home = homes_[d];
  if (exchange_ && d == 0 && find_changed()) return;  // keeping the change would wait
  std::vector<Piece> earlier;
  const std::pair present(home.before_last, home.last);
  std::pair uses = present;
  for (int i = 0; i < kFarthest; ++i) {
    const auto found = home.next.find(uses);
    if (found == home.next.end() || (i > 0 && uses == present)) {  // nothing is expected, or the same uses again
      home.expects_another = false;
      return;
    }
    uses = {uses.second, found->second};
    const Piece piece = piece_for(uses.second.memory->place, uses.second.dtype);
    if (!is_whole(piece)) continue;
    if (find(d, piece)) {
      earlier.push_back(piece);
      continue;
    }
    if (home.buffers.size() >= buffers_ && !least_recently_used(d, earlier)) return;
    if (comes_from_others(piece)) {
      if (!exchange_->find(piece)) return exchange_->ask(piece);  // fetched when it is here
      if (!exchange_->may_copy(piece)) return;
    }
    home.expects_another = false;
    try {
      fetch(d, piece, earlier);
    } catch (const NoRoom&) {  // it is brought when it is used
    }
    return;
  }
}

void ParameterUnits::use_on(const Memory& memory, DType dtype, const StreamHandle& handle) {
  const std::scoped_lock lock(mutex_);
  const Place& place = memory.place;
  const Home& home = homes_[place.device];
  const Taken* const own = find_taken(this, [&](const Taken& each) {
    return each.device == place.device && each.piece.dtype == dtype && each.piece.has(place);
  });
  Buffer* const buffer = own ? find(place.device, own->piece) : nullptr;
  if (!buffer || own->brought != buffer->brought) throw_gone(home.device);
  const Stream stream = StreamAccess::make(home.device, handle.id);
  if (std::ranges::find(buffer->users, stream) != buffer->users.end()) return;
  stream.wait(*buffer->full);
  buffer->users.push_back(stream);
}

// Brings and empties nothing: the operation counts its change in place only after this.
void ParameterUnits::let_go(std::size_t brought) noexcept {
  Taken* const own = find_taken(this, [&](const Taken& each) { return each.brought == brought; });
  if (!own) return;
  const std::scoped_lock lock(mutex_);
  Buffer* const buffer = find(own->device, own->piece);
  if (buffer && buffer->brought == own->brought) --buffer->kept;
  *own = taken.back();
  taken.pop_back();
}

ParameterUnits::Buffer* ParameterUnits::find(std::size_t d, const Piece& piece) {
  for (std::vector<Buffer>* const buffers : {&homes_[d].buffers, &homes_[d].singles})
    for (Buffer& buffer : *buffers)
      if (buffer.piece == piece) return &buffer;
  return nullptr;
}

// Null if the present operation uses all, or they hold pieces that stay. Empty ones come first.
ParameterUnits::Buffer* ParameterUnits::least_recently_used(std::size_t d, std::span<const Piece> but_for) {
  const auto stays = [&](const Buffer& buffer) {
    return buffer.kept > 0 || (buffer.piece && std::ranges::find(but_for, *buffer.piece) != but_for.end());
  };
  const auto age = [](const Buffer& buffer) { return std::pair(buffer.piece.has_value(), buffer.used); };
  Buffer* best = nullptr;
  for (Buffer& buffer : homes_[d].buffers)
    if (!stays(buffer) && (!best || age(buffer) < age(*best))) best = &buffer;
  return best;
}

// A buffer that holds nothing, for copies on the device's stream of copies. If all are in use by the present operation,
// makes one more: it goes at the next end_update(). Throws NoRoom.
ParameterUnits::Buffer& ParameterUnits::empty_buffer(std::size_t d, std::size_t bytes, std::span<const Piece> but_for) {
  Home& home = homes_[d];
  Buffer* best = least_recently_used(d, but_for);
  if (!best || (best->piece && home.buffers.size() < buffers_)) best = &home.buffers.emplace_back();
  empty(d, *best);
  for (const Stream& user : best->users) home.copies.wait(user.record());
  best->users.clear();
  if (!best->memory.defined() || best->memory.impl()->storage->bytes != bytes) {
    best->memory = Tensor();  // free on the stream of copies, which has waited for the users
    best->memory = make_without_waiting(home.copies, std::int64_t(bytes), kUInt8);
  }
  return *best;
}

// Lets the unit go. A change in place by the first device goes to the shares. (Forward, which runs on all devices, must
// not change parameters: PassChanges refuses it.)
void ParameterUnits::empty(std::size_t d, Buffer& buffer) {
  if (has_changed(d, buffer)) write_back(d, buffer);
  buffer.piece.reset();
  buffer.kept = 0;
}

void ParameterUnits::free_extra_buffers(std::size_t d) {
  std::vector<Buffer>& buffers = homes_[d].buffers;
  if (std::ranges::any_of(buffers, [](const Buffer& buffer) { return buffer.kept > 0; })) return;
  for (; buffers.size() > buffers_; buffers.pop_back()) {
    empty(d, buffers.back());
    record_users(buffers.back());
  }
}

// Copies a piece from the shares to a buffer of device d, or back.
void ParameterUnits::copy(std::size_t d, const Buffer& buffer, const Piece& piece, bool into_buffer) {
  const DeviceState& device = device_state(homes_[d].device);
  const StreamHandle stream = StreamAccess::handle(homes_[d].copies);
  use_in_capture(*buffer.memory.impl()->storage);
  const auto enqueue = [&](const Tensor& share, std::size_t first, std::byte* in_buffer, std::size_t row_bytes,
                           std::size_t rows) {
    std::byte* const in_share = share.impl()->data() + first;
    use_in_capture(*share.impl()->storage);
    Copy copy = {.to = in_share,
                 .from = in_buffer,
                 .to_device = share.device().index(),
                 .from_device = device.device.index(),
                 .row_bytes = row_bytes,
                 .rows = rows,
                 .to_pitch = row_bytes,
                 .from_pitch = homes_.size() * row_bytes};
    if (into_buffer) {
      std::swap(copy.to_device, copy.from_device);
      std::swap(copy.to_pitch, copy.from_pitch);
      copy.to = in_buffer;
      copy.from = in_share;
    }
    device.backend.copy(stream, copy);
  };
  std::byte* const begin = buffer.memory.impl()->data();
  const Unit& unit = units_[piece.unit];
  if (is_whole(piece)) {
    const std::size_t part = std::size_t(unit.part) * size_of(piece.dtype);
    for (std::size_t share = 0; share < homes_.size() && part > 0; ++share)
      enqueue(shares_of(piece)[share], 0, begin + share * part, part, processes_);
    return;
  }
  for_parts_by_device(
      unit.part, piece.begin, piece.size, homes_.size(),
      [&](std::size_t rank, std::int64_t within, std::int64_t at, std::int64_t in_device, std::int64_t count) {
        const std::size_t element = size_of(piece.dtype);
        const Tensor part = exchange_ ? shares_of(piece)[rank % homes_.size()] : held(unit, rank, within, count);
        enqueue(part, exchange_ ? std::size_t(in_device) * element : 0, begin + std::size_t(at) * element,
                std::size_t(count) * element, 1);
      });
}

// True if a part of the piece is in another process.
bool ParameterUnits::comes_from_others(const Piece& piece) const {
  if (!exchange_) return false;
  std::size_t parameters = 0, changed = 0;
  const Unit& unit = units_[piece.unit];
  for (std::size_t i = 0; i < unit.begins.size(); ++i) {
    if (!piece.has(unit.begins[i])) continue;
    ++parameters;
    changed += unit.changed.contains(i);
  }
  return changed < parameters;
}

ParameterUnits::Buffer& ParameterUnits::fetch(std::size_t d, const Piece& piece, std::span<const Piece> but_for) {
  const std::uint64_t failures = reported_failures;
  if (is_converted(piece)) {
    if (d == 0) write_changes_back(piece.unit);
    if (!exchange_) convert_shares(d, piece.unit, piece.dtype);
  }
  Buffer& buffer = is_whole(piece) ? empty_buffer(d, buffer_bytes(piece), but_for) : single_buffer(d, piece);
  has_copied_ = true;
  are_gone_ = are_gone_ && present_step() != 0;
  buffer.failures = failures;
  const Stream& copies = homes_[d].copies;
  if (comes_from_others(piece)) {
    Exchange::Slot& slot = *exchange_->find(piece);
    for (const cuda::Event& full : slot.full) copies.wait(full);
    copy(d, buffer, piece, true);
    slot.copies.push_back(copies.record());
  } else if (!exchange_) {
    copy(d, buffer, piece, true);
  }
  if (exchange_) copy_changed(d, buffer, piece);
  buffer.full.emplace(copies.record());
  buffer.piece = piece;
  buffer.versions = versions_of(d, piece);
  buffer.brought = ++brought_;
  buffer.used = ++clock_;
  return buffer;
}

}  // namespace lockstep
