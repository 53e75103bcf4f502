#include "parallel/parameter_units.h"

#include <algorithm>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>

#include "autograd/meta.h"
#include "core/text.h"
#include "parallel/parameter_memory.h"
#include "runtime/registry.h"
#include "runtime/reported_failures.h"
#include "tensor/copy.h"
#include "tensor/deferred_memory.h"
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

[[noreturn]] void throw_gone(const Device& device) {
  throw InvalidArgument(text("[DataParallel] expected a parameter to stay on ", device,
                             " until the operation that uses it is enqueued, but it has gone: one thread at a time may "
                             "use and change the parameters of a model with Shard::parameters"));
}

// Two tensors of one shape exchange their memory, and with it their devices.
void exchange_memory(const Tensor& a, const Tensor& b) {
  TensorImpl &one = *a.impl(), &other = *b.impl();
  std::swap(one.storage, other.storage);
  std::swap(one.offset, other.offset);
  std::swap(one.strides, other.strides);
  std::swap(one.contiguous, other.contiguous);
  for (TensorImpl* const tensor : {&one, &other})
    if (tensor->autograd) static_cast<autograd::Meta&>(*tensor->autograd).accumulator.reset();  // the former device's
}

Tensor elements(const Tensor& flat, std::int64_t begin, std::int64_t count) {
  return make_view(flat, {count}, {1}, flat.impl()->offset + begin);
}

}  // namespace

ParameterUnits::ParameterUnits(std::span<const Device> devices, std::size_t process, std::size_t processes,
                               std::size_t buffers)
    : process_(process), processes_(processes), buffers_(buffers) {
  for (const Device& device : devices)
    homes_.push_back({.device = device, .copies = Stream::from_pool(device, StreamPriority::high)});
}

ParameterUnits::~ParameterUnits() {
  try {
    for (Home& home : homes_)
      for (const std::vector<Buffer>* const buffers : {&home.buffers, &home.singles})
        for (const Buffer& buffer : *buffers) record_users(buffer);
    free_after_copies(units_);
  } catch (...) {  // a device is gone, and its memory with it
  }
}

// The allocator orders memory that is freed after the streams of its own device alone.
void ParameterUnits::free_after_copies(const Tensor& share) const {
  const Stream own = StreamAccess::make(share.device(), share.impl()->storage->stream_id);
  for (const Home& home : homes_) own.wait(home.copies.record());
}

void ParameterUnits::free_after_copies(std::span<const Unit> units) const {
  for (const Unit& unit : units) {
    for (const Tensor& share : unit.shares) free_after_copies(share);
    for (const Converted& converted : unit.converted)
      for (const Tensor& share : converted.shares) free_after_copies(share);
  }
}

void ParameterUnits::record_users(const Buffer& buffer) {
  if (!buffer.memory.defined()) return;
  for (const Stream& user : buffer.users) buffer.memory.record_stream(user);
}

ParameterUnits::Values::Values(std::span<const std::vector<Tensor>> parameters, Device device) {
  for (const std::vector<Tensor>& replicas : parameters)
    if (const Storage& storage = *replicas[0].impl()->storage; storage.references != 1 + storage.captures)
      throw InvalidArgument(
          text("[DataParallel] cannot shard a parameter that has views, got one of shape ", replicas[0].sizes(),
               ": make the DataParallel before views of its parameters, and free graphs that hold such views"));
  for (const std::vector<Tensor>& replicas : parameters) {
    const Tensor& parameter = parameters_.emplace_back(replicas[0]);
    values_.push_back(make_without_memory(device_state(device), parameter.sizes(), parameter.dtype()));
  }
  for (std::size_t e = 0; e < values_.size(); ++e) exchange_memory(values_[e], parameters_[e]);  // which cannot fail
}

ParameterUnits::Values::~Values() {
  for (std::size_t e = 0; e < values_.size(); ++e)
    if (is_without_memory(parameters_[e])) exchange_memory(values_[e], parameters_[e]);
}

// Calls f(piece, at) for each piece of `count` elements of the unit from `begin` on, which lies in one part; `at` is
// the piece's first element, counted from `begin`.
template <class F>
void ParameterUnits::for_pieces(const Unit& unit, std::int64_t begin, std::int64_t count, const F& f) const {
  const auto devices = std::int64_t(homes_.size());
  for (std::int64_t at = begin, size; at < begin + count; at += size) {
    const std::int64_t rank = at / unit.part, within = at % unit.part;
    size = std::min(begin + count - at, unit.part - within);
    f(elements(unit.shares[std::size_t(rank % devices)], rank / devices * unit.part + within, size), at - begin);
  }
}

std::vector<ParameterUnits::Unit> ParameterUnits::make_units(const BucketLayout& layout) const {
  const NoGrad guard;
  std::vector<Unit> units;
  for (const BucketMemory& bucket : layout.buckets) {
    const std::int64_t part = bucket.flats[0].numel() / std::int64_t(homes_.size() * processes_);
    Unit& unit = units.emplace_back(Unit{.dtype = bucket.flats[0].dtype(), .part = part, .begins = bucket.begins});
    unit.parameters.resize(homes_.size());
    for (const Home& home : homes_) {
      unit.shares.push_back(make_tensor(device_state(home.device), {std::int64_t(processes_) * part}, unit.dtype));
      fill_values(unit.shares.back(), 0);
    }
  }
  return units;
}

void ParameterUnits::add(std::span<const std::vector<Tensor>> parameters, const Values& values,
                         const BucketLayout& layout) {
  const NoGrad guard;
  const std::size_t devices = homes_.size(), first = units_.size();
  std::vector<Unit> added = make_units(layout);
  for (std::size_t b = 0; b < added.size(); ++b) {
    const BucketMemory& bucket = layout.buckets[b];
    for (std::size_t i = 0; i < bucket.entries.size(); ++i) {
      const Tensor whole = without_deferring(values[bucket.entries[i]]).contiguous();
      for_pieces(added[b], bucket.begins[i], whole.numel(),
                 [&](const Tensor& piece, std::int64_t at) { copy_values(piece, elements(whole, at, piece.numel())); });
    }
  }
  const std::scoped_lock lock(mutex_);
  for (std::size_t b = 0; b < added.size(); ++b) {
    const BucketMemory& bucket = layout.buckets[b];
    for (std::size_t i = 0; i < bucket.entries.size(); ++i)
      for (std::size_t d = 0; d < devices; ++d) {
        TensorImpl& tensor = *parameters[bucket.entries[i]][d].impl();
        auto storage = std::make_unique<Storage>();
        storage->device = &device_state(homes_[d].device);
        storage->bytes = std::size_t(tensor.numel) * size_of(tensor.dtype);
        // Backward must notice that a tensor saved from the former memory has changed.
        storage->version = (d == 0 ? values[bucket.entries[i]] : parameters[bucket.entries[i]][d]).version() + 1;
        storage->transient = std::make_unique<Memory>(
            shared_from_this(), Place{first + b, d, bucket.begins[i], tensor.numel}, tensor.dtype, storage.get());
        added[b].parameters[d].push_back(storage.get());
        tensor.storage->release();
        tensor.storage = storage.release();
        tensor.offset = 0;
        tensor.strides = contiguous_strides(tensor.sizes);
        tensor.contiguous = true;
      }
    fit_buffers_to(added[b]);
    units_.push_back(std::move(added[b]));
  }
  use_shares_after_current_streams();
}

void ParameterUnits::move_to(std::vector<Unit> units, std::span<const std::vector<Tensor>> parameters,
                             const BucketLayout& layout) {
  const NoGrad guard;
  const WithoutEnqueuing copies_let_nothing_go;  // which would take the mutex
  const std::scoped_lock lock(mutex_);
  has_copied_ = true;  // the streams of copies have waited for the last update, perhaps on other streams than these
  let_all_go();
  unit_bytes_ = 0, unit_elements_ = 0;
  for (std::size_t b = 0; b < units.size(); ++b) {
    const BucketMemory& bucket = layout.buckets[b];
    for (std::size_t i = 0; i < bucket.entries.size(); ++i) {
      const std::vector<Tensor>& replicas = parameters[bucket.entries[i]];
      const Place former = Memory::of(replicas[0], *this)->place;
      for_pieces(units[b], bucket.begins[i], former.size, [&](const Tensor& piece, std::int64_t at) {
        for_pieces(units_[former.unit], former.begin + at, piece.numel(), [&](const Tensor& from, std::int64_t first) {
          copy_values(elements(piece, first, from.numel()), from);
        });
      });
      for (std::size_t d = 0; d < homes_.size(); ++d) {
        Memory& memory = *Memory::of(replicas[d], *this);
        memory.place = {b, d, bucket.begins[i], former.size};
        units[b].parameters[d].push_back(memory.storage);
      }
    }
    fit_buffers_to(units[b]);
  }
  use_shares_after_current_streams();
  free_after_copies(units_);
  units_ = std::move(units);
  ++layout_;
  for (Home& home : homes_) home.last_piece.reset();
}

void ParameterUnits::fit_buffers_to(const Unit& unit) {
  const std::int64_t elements = unit.part * std::int64_t(homes_.size() * processes_);
  unit_bytes_ = std::max(unit_bytes_, std::size_t(elements) * size_of(unit.dtype));
  unit_elements_ = std::max(unit_elements_, elements);
}

void ParameterUnits::use_shares_after_current_streams() {
  enter_step();
  for (const Home& home : homes_)
    for (const Home& other : homes_) home.copies.wait(current_stream(other.device).record());
}

Tensor ParameterUnits::own_part(const Memory& memory) {
  const std::scoped_lock lock(mutex_);
  const Place& place = memory.place;
  const Unit& unit = units_[place.unit];
  const std::int64_t at = std::int64_t(process_ * homes_.size() + place.device) * unit.part;
  const std::int64_t from = std::max(place.begin, at), to = std::min(place.begin + place.size, at + unit.part);
  if (from >= to) return elements(unit.shares[place.device], 0, 0);
  return elements(unit.shares[place.device], std::int64_t(process_) * unit.part + from - at, to - from);
}

bool ParameterUnits::have(const Tensor& parameter) const { return Memory::of(parameter, *this); }

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

std::byte* ParameterUnits::bring(const Memory& memory, DType dtype) {
  use_in_step();
  const std::scoped_lock lock(mutex_);
  const Place& place = memory.place;
  enter_step(place.device, current_stream(homes_[place.device].device));
  let_doubtful_go();
  Home& home = homes_[place.device];
  if (home.buffers.size() > buffers_) free_extra_buffers(place.device);
  if (!home.singles.empty()) free_singles(place.device);
  if (place.device == 0 && dtype != memory.dtype) write_changes_back(place.unit);
  const Piece piece = piece_for(place, dtype);
  Buffer* buffer = find(place.device, piece);
  Taken* const own =
      find_taken(this, [&](const Taken& each) { return each.device == place.device && each.piece == piece; });
  if (own && (!buffer || buffer->brought != own->brought)) throw_gone(home.device);
  if (!buffer) buffer = &fetch(place.device, piece);
  buffer->used = ++clock_;
  if (!own) {
    keep_until_enqueued(shared_from_this(), std::size_t(buffer->brought));
    taken.push_back({this, place.device, piece, buffer->brought});
    ++buffer->kept;
  }
  std::byte* const address = buffer->memory.impl()->data() + std::size_t(place.begin - piece.begin) * size_of(dtype);
  note_use(home, {&memory, dtype}, piece);
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
    fetch(d, piece, earlier);
    home.expects_another = false;
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
// makes one more: it goes at the next end_update().
ParameterUnits::Buffer& ParameterUnits::empty_buffer(std::size_t d, std::size_t bytes, std::span<const Piece> but_for) {
  Home& home = homes_[d];
  Buffer* best = least_recently_used(d, but_for);
  if (!best || (best->piece && home.buffers.size() < buffers_)) best = &home.buffers.emplace_back();
  empty(d, *best);
  for (const Stream& user : best->users) home.copies.wait(user.record());
  best->users.clear();
  if (!best->memory.defined() || best->memory.impl()->storage->bytes != bytes) {
    best->memory = Tensor();  // free on the stream of copies, which has waited for the users
    const StreamGuard on(home.copies);
    best->memory = make_tensor(device_state(home.device), {std::int64_t(bytes)}, kUInt8);
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
  const auto enqueue = [&](const Tensor& share, std::byte* in_buffer, std::size_t row_bytes, std::size_t rows) {
    std::byte* const in_share = share.impl()->data();
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
  if (is_whole(piece)) {
    const std::size_t part = std::size_t(units_[piece.unit].part) * size_of(piece.dtype);
    for (std::size_t share = 0; share < homes_.size() && part > 0; ++share)
      enqueue(shares_of(piece)[share], begin + share * part, part, processes_);
  } else {
    for_pieces(units_[piece.unit], piece.begin, piece.size, [&](const Tensor& part, std::int64_t at) {
      const std::size_t element = size_of(piece.dtype);
      enqueue(part, begin + std::size_t(at) * element, std::size_t(part.numel()) * element, 1);
    });
  }
}

ParameterUnits::Buffer& ParameterUnits::fetch(std::size_t d, const Piece& piece, std::span<const Piece> but_for) {
  const std::uint64_t failures = reported_failures;
  if (is_converted(piece)) {
    if (d == 0) write_changes_back(piece.unit);
    convert_shares(d, piece.unit, piece.dtype);
  }
  Buffer& buffer = is_whole(piece) ? empty_buffer(d, buffer_bytes(piece), but_for) : single_buffer(d, piece);
  has_copied_ = true;
  are_gone_ = are_gone_ && present_step() != 0;
  buffer.failures = failures;
  copy(d, buffer, piece, true);
  buffer.full.emplace(homes_[d].copies.record());
  buffer.piece = piece;
  buffer.versions = versions_of(d, piece);
  buffer.brought = ++brought_;
  buffer.used = ++clock_;
  return buffer;
}

std::vector<std::uint64_t> ParameterUnits::versions_of(std::size_t d, const Piece& piece) const {
  std::vector<std::uint64_t> versions;
  if (is_converted(piece)) return versions;
  const Unit& unit = units_[piece.unit];
  const std::vector<const Storage*>& storages = unit.parameters[d];
  for (std::size_t i = 0; i < storages.size(); ++i)
    if (piece.begin <= unit.begins[i] && unit.begins[i] < piece.begin + piece.size)
      versions.push_back(storages[i] ? storages[i]->version.load() : 0);
  return versions;
}

// Only the first device changes parameters in place.
bool ParameterUnits::has_changed(std::size_t d, const Buffer& buffer) const {
  return d == 0 && buffer.piece && buffer.versions != versions_of(d, *buffer.piece);
}

// The piece was changed in place on device d: copies it to all shares. Its unit goes on the other devices, and in other
// dtypes.
void ParameterUnits::write_back(std::size_t d, Buffer& buffer) {
  const Stream& copies = homes_[d].copies;
  for (std::size_t other = 0; other < homes_.size(); ++other) enter_step(other, copies);
  for (const Stream& user : buffer.users) copies.wait(user.record());
  for (const Home& other : homes_)
    if (&other != &homes_[d]) copies.wait(other.copies.record());
  copy(d, buffer, *buffer.piece, false);
  has_copied_ = true;
  for (const Home& other : homes_)
    if (&other != &homes_[d]) other.copies.wait(copies.record());
  const std::size_t unit = buffer.piece->unit;
  for (std::size_t other = 0; other < homes_.size(); ++other)
    for (std::vector<Buffer>* const buffers : {&homes_[other].buffers, &homes_[other].singles})
      for (Buffer& its : *buffers)
        if (its.piece && its.piece->unit == unit && (other != d || is_converted(*its.piece)))
          its.piece.reset(), its.kept = 0;
  for (Converted& converted : units_[unit].converted) converted.is_stale = true;
  buffer.versions = versions_of(d, *buffer.piece);
  // Later changes in the buffer start after the copies. (Those have waited for the users.)
  buffer.full.emplace(copies.record());
  buffer.users.clear();
}

void ParameterUnits::publish(const Memory& memory) {
  const std::scoped_lock lock(mutex_);
  enter_step(0, current_stream(homes_[0].device));
  let_doubtful_go();
  if (memory.place.device == 0) write_changes_back(memory.place.unit);
}

// The changes in place of the unit by the first device.
void ParameterUnits::write_changes_back(std::size_t unit) {
  for (std::vector<Buffer>* const buffers : {&homes_[0].buffers, &homes_[0].singles})
    for (Buffer& buffer : *buffers)
      if (buffer.piece && buffer.piece->unit == unit && has_changed(0, buffer)) write_back(0, buffer);
}

void ParameterUnits::forget(const Memory& memory) noexcept {
  const std::scoped_lock lock(mutex_);
  std::ranges::replace(units_[memory.place.unit].parameters[memory.place.device], memory.storage,
                       static_cast<const Storage*>(nullptr));
  Home& home = homes_[memory.place.device];
  home.next.clear();
  home.last = home.before_last = {};
}

void ParameterUnits::begin_update() {
  const std::scoped_lock lock(mutex_);
  let_all_go();
  mark_converted_stale();
}

// Later work on the current streams starts after all copies out of the shares.
void ParameterUnits::let_all_go() {
  enter_step();
  let_doubtful_go();
  for (std::size_t d = 0; d < homes_.size(); ++d)
    for (Buffer& buffer : homes_[d].buffers) empty(d, buffer);
  for (std::size_t d = 0; d < homes_.size(); ++d) {
    for (Buffer& single : homes_[d].singles) {
      empty(d, single);
      record_users(single);
    }
    homes_[d].singles.clear();
  }
  if (!std::exchange(has_copied_, false)) return;
  for (const Home& home : homes_)
    for (const Home& other : homes_) current_stream(home.device).wait(other.copies.record());
}

void ParameterUnits::end_update(std::span<const Tensor> parameters, Communicator* between_processes) {
  const std::scoped_lock lock(mutex_);
  std::vector<bool> is_changed(units_.size());
  for (const Tensor& parameter : parameters)
    if (const Memory* const memory = Memory::of(parameter, *this)) is_changed[memory->place.unit] = true;
  if (between_processes) {
    const std::size_t devices = homes_.size();
    std::vector<Stream> streams;
    std::vector<Transfer> transfers;
    for (const Home& home : homes_) streams.push_back(current_stream(home.device));
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (!is_changed[u]) continue;
      const Unit& unit = units_[u];
      const std::size_t bytes = std::size_t(unit.part) * size_of(unit.dtype);
      for (std::size_t from = 0; from < processes_; ++from)
        for (std::size_t to = 0; to < processes_; ++to)
          for (std::size_t d = 0; d < devices && from != to; ++d) {
            std::byte* const part = unit.shares[d].impl()->data() + from * bytes;
            transfers.push_back({int(from * devices + d), int(to * devices + d), from == process_ ? part : nullptr,
                                 to == process_ ? part : nullptr, bytes});
          }
    }
    if (!transfers.empty()) between_processes->send_receive(streams, transfers, kUInt8);
  }
  use_shares_after_current_streams();
  converts_after_copies_ = false;
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (is_changed[u]) free_unused_conversions(units_[u]);
  for (std::size_t d = 0; d < homes_.size(); ++d) {
    Home& home = homes_[d];
    free_extra_buffers(d);
    home.last = home.before_last = {};
    home.last_piece.reset();
  }
}

}  // namespace lockstep
