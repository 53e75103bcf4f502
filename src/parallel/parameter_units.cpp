#include "parallel/parameter_units.h"

#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>

#include "autograd/meta.h"
#include "core/text.h"
#include "parallel/parameter_memory.h"
#include "parallel/unit_exchange.h"
#include "parallel/unit_parts.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/deferred_memory.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

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

}  // namespace

ParameterUnits::ParameterUnits(std::span<const Device> devices, const World& world, std::size_t buffers,
                               bool between_processes, const CommunicatorOptions& options)
    : world_(world),
      process_(std::size_t(world.rank().value())),
      processes_(std::size_t(world.size())),
      buffers_(buffers) {
  for (const Device& device : devices)
    homes_.push_back({.device = device, .copies = Stream::from_pool(device, StreamPriority::high)});
  if (between_processes && processes_ > 1) exchange_ = std::make_unique<Exchange>(*this, devices, options);
}

ParameterUnits::~ParameterUnits() {
  try {
    if (exchange_) exchange_->leave();
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
  if (exchange_)
    for (const Stream& stream : exchange_->streams()) own.wait(stream.record());
}

void ParameterUnits::free_after_copies(std::span<const Unit> units) const {
  for (const Unit& unit : units) {
    for (const Tensor& share : unit.shares) free_after_copies(share);
    for (const Converted& converted : unit.converted)
      for (const Tensor& share : converted.shares) free_after_copies(share);
  }
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

// Elements of a rank's part; an undefined Tensor if another process holds that part.
Tensor ParameterUnits::held(const Unit& unit, std::size_t rank, std::int64_t within, std::int64_t count) const {
  const std::size_t process = rank / homes_.size();
  const Tensor& share = unit.shares[rank % homes_.size()];
  if (!exchange_) return elements(share, std::int64_t(process) * unit.part + within, count);
  return process == process_ ? elements(share, within, count) : Tensor();
}

std::vector<ParameterUnits::Unit> ParameterUnits::make_units(const BucketLayout& layout) const {
  const NoGrad guard;
  const std::int64_t parts = exchange_ ? 1 : std::int64_t(processes_);  // of a share
  std::vector<Unit> units;
  for (const BucketMemory& bucket : layout.buckets) {
    const std::int64_t part = bucket.flats[0].numel() / std::int64_t(homes_.size() * processes_);
    Unit& unit = units.emplace_back(Unit{.dtype = bucket.flats[0].dtype(), .part = part, .begins = bucket.begins});
    unit.parameters.resize(homes_.size());
    for (const Home& home : homes_) {
      unit.shares.push_back(make_tensor(device_state(home.device), {parts * part}, unit.dtype));
      fill_values(unit.shares.back(), 0);
    }
  }
  return units;
}

void ParameterUnits::reserve_slots_for(std::span<const Unit> units) {
  if (!exchange_) return;
  std::size_t bytes_each = 0;
  for (const Unit& unit : units)
    bytes_each = std::max(bytes_each, std::size_t(unit.part) * processes_ * size_of(unit.dtype));
  Lock lock(mutex_);
  exchange_->reserve_slots(lock, bytes_each);
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
      for_parts(added[b].part, bucket.begins[i], whole.numel(),
                [&](std::size_t rank, std::int64_t within, std::int64_t at, std::int64_t count) {
                  const Tensor own = held(added[b], rank, within, count);
                  if (own.defined()) copy_values(own, elements(whole, at, count));
                });
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
  if (exchange_) exchange_->end_update();  // the new parts can be exchanged
}

void ParameterUnits::move_to(std::vector<Unit> units, std::span<const std::vector<Tensor>> parameters,
                             const BucketLayout& layout) {
  const NoGrad guard;
  if (exchange_) begin_update();
  const WithoutEnqueuing copies_let_nothing_go;  // which would take the mutex
  const std::scoped_lock lock(mutex_);
  has_copied_ = true;  // the streams of copies have waited for the last update, perhaps on other streams than these
  let_all_go();
  unit_bytes_ = 0, unit_elements_ = 0;
  std::vector<Transfer> transfers;
  for (std::size_t b = 0; b < units.size(); ++b) {
    const BucketMemory& bucket = layout.buckets[b];
    for (std::size_t i = 0; i < bucket.entries.size(); ++i) {
      const std::vector<Tensor>& replicas = parameters[bucket.entries[i]];
      const Place former = Memory::of(replicas[0], *this)->place;
      move_values(units[b], bucket.begins[i], former, transfers);
      for (std::size_t d = 0; d < homes_.size(); ++d) {
        Memory& memory = *Memory::of(replicas[d], *this);
        memory.place = {b, d, bucket.begins[i], former.size};
        units[b].parameters[d].push_back(memory.storage);
      }
    }
    fit_buffers_to(units[b]);
  }
  if (exchange_) {
    std::vector<Stream> streams;
    for (const Home& home : homes_) streams.push_back(current_stream(home.device));
    exchange_->communicator().send_receive(streams, transfers, kUInt8);
    exchange_->renew_slots();
    exchange_->end_update();
  }
  use_shares_after_current_streams();
  free_after_copies(units_);
  units_ = std::move(units);
  ++layout_;
  for (Home& home : homes_) home.last_piece.reset(), home.converted.clear();
}

// Copies a parameter's values from their former place to the parts of unit `to`. Those that the processes have to send
// to each other are added to `transfers`.
void ParameterUnits::move_values(const Unit& to, std::int64_t begin, const Place& from,
                                 std::vector<Transfer>& transfers) const {
  const Unit& former = units_[from.unit];
  for_parts(to.part, begin, from.size, [&](std::size_t rank, std::int64_t within, std::int64_t at, std::int64_t size) {
    for_parts(former.part, from.begin + at, size,
              [&](std::size_t its_rank, std::int64_t its_within, std::int64_t first, std::int64_t count) {
                const Tensor receive = held(to, rank, within + first, count),
                             send = held(former, its_rank, its_within, count);
                if (!exchange_) return copy_values(receive, send);
                transfers.push_back({.from = int(its_rank),
                                     .to = int(rank),
                                     .send = send.defined() ? send.impl()->data() : nullptr,
                                     .receive = receive.defined() ? receive.impl()->data() : nullptr,
                                     .count = std::size_t(count) * size_of(to.dtype)});
              });
  });
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
  return held(unit, process_ * homes_.size() + place.device, from - at, to - from);
}

bool ParameterUnits::have(const Tensor& parameter) const { return Memory::of(parameter, *this); }

void ParameterUnits::publish(const Memory& memory) {
  Lock lock(mutex_);
  enter_step(0, current_stream(homes_[0].device));
  let_doubtful_go();
  keep_changes(lock);
  if (memory.place.device == 0) write_changes_back(memory.place.unit);
}

void ParameterUnits::forget(const Memory& memory) noexcept {
  const std::scoped_lock lock(mutex_);
  std::ranges::replace(units_[memory.place.unit].parameters[memory.place.device], memory.storage,
                       static_cast<const Storage*>(nullptr));
  Home& home = homes_[memory.place.device];
  home.next.clear();
  home.last = home.before_last = {};
}

void ParameterUnits::begin_pass(std::size_t count) {
  if (!exchange_) return;
  abandon_update();
  const bool are_changes = agree_on_changes();
  Lock lock(mutex_);
  let_all_go();  // all devices begin with empty buffers, and so need the same exchanges
  if (are_changes) {
    exchange_->begin_update(lock);
    send_changes();
    exchange_->end_update();
  }
  exchange_->begin_pass(lock, count);
}

void ParameterUnits::begin_backward(std::size_t d) {
  if (!exchange_) return;
  const std::scoped_lock lock(mutex_);
  exchange_->set_place(d, Exchange::Place::in_pass);
}

void ParameterUnits::leave_pass(std::size_t d, bool backward_follows) noexcept {
  if (!exchange_) return;
  const std::scoped_lock lock(mutex_);
  exchange_->set_place(d, backward_follows ? Exchange::Place::before_pass : Exchange::Place::outside);
}

void ParameterUnits::begin_update() {
  if (exchange_ && !is_updating()) agree_on_changes();
  Lock lock(mutex_);
  if (exchange_) exchange_->begin_update(lock);
  let_all_go();
  mark_converted_stale();
  if (exchange_) send_changes();
}

bool ParameterUnits::is_updating() {
  const std::scoped_lock lock(mutex_);
  return exchange_ && exchange_->is_updating();
}

void ParameterUnits::abandon_update() noexcept {
  const std::scoped_lock lock(mutex_);
  if (!exchange_ || !exchange_->is_updating()) return;
  try {
    exchange_->end_update();
  } catch (...) {  // a device is lost
  }
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

void ParameterUnits::end_update(std::span<const Tensor> parameters, Communicator* communicator) {
  const std::scoped_lock lock(mutex_);
  std::vector<bool> is_changed(units_.size());
  for (const Tensor& parameter : parameters)
    if (const Memory* const memory = Memory::of(parameter, *this)) is_changed[memory->place.unit] = true;
  if (exchange_) {
    exchange_->end_update();
  } else if (communicator) {
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
    if (!transfers.empty()) communicator->send_receive(streams, transfers, kUInt8);
  }
  use_shares_after_current_streams();
  converts_after_copies_ = false;
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (is_changed[u]) free_unused_conversions(units_[u]);
  for (std::size_t d = 0; d < homes_.size(); ++d) {
    Home& home = homes_[d];
    free_extra_buffers(d);
    forget_unused_conversions(home);
    home.last = home.before_last = {};
    home.last_piece.reset();
  }
}

}  // namespace lockstep
