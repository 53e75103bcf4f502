// Changes of parameters by hand, in place, by the first device: found by version counts, and sent to the shares of all
// devices before the buffer is emptied. With an exchange they stay on the host of the process until all processes meet,
// and are refused there if they differ. All functions here but agree_on_changes() are called with the units' mutex
// held.
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>

#include "core/text.h"
#include "distributed/same_lines.h"
#include "parallel/parameter_units.h"
#include "parallel/unit_exchange.h"
#include "parallel/unit_parts.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

std::vector<std::uint64_t> ParameterUnits::versions_of(std::size_t d, const Piece& piece) const {
  std::vector<std::uint64_t> versions;
  if (is_converted(piece)) return versions;
  const Unit& unit = units_[piece.unit];
  const std::vector<const Storage*>& storages = unit.parameters[d];
  for (std::size_t i = 0; i < storages.size(); ++i)
    if (piece.has(unit.begins[i]))  // (an operation on no elements may count as a change, and brings no memory)
      versions.push_back(storages[i] && storages[i]->bytes > 0 ? storages[i]->version.load() : 0);
  return versions;
}

// Only the first device changes parameters in place.
bool ParameterUnits::has_changed(std::size_t d, const Buffer& buffer) const {
  return d == 0 && buffer.piece && buffer.versions != versions_of(d, *buffer.piece);
}

// The piece was changed in place on device d: copies it to all shares. Its unit goes on the other devices, and in other
// dtypes.
void ParameterUnits::write_back(std::size_t d, Buffer& buffer) {
  if (exchange_) throw_gone(homes_[d].device);  // another thread has changed it since keep_changes()
  const Stream& copies = homes_[d].copies;
  for (std::size_t other = 0; other < homes_.size(); ++other) enter_step(other, copies);
  for (const Stream& user : buffer.users) copies.wait(user.record());
  for (const Home& other : homes_)
    if (&other != &homes_[d]) copies.wait(other.copies.record());
  copy(d, buffer, *buffer.piece, false);
  has_copied_ = true;
  for (const Home& other : homes_)
    if (&other != &homes_[d]) other.copies.wait(copies.record());
  forget_other_forms(d, buffer.piece->unit);
  buffer.versions = versions_of(d, *buffer.piece);
  // Later changes in the buffer start after the copies. (Those have waited for the users.)
  buffer.full.emplace(copies.record());
  buffer.users.clear();
}

// The changes in place of the unit by the first device; with an exchange after keep_changes(), and so none.
void ParameterUnits::write_changes_back(std::size_t unit) {
  for (std::vector<Buffer>* const buffers : {&homes_[0].buffers, &homes_[0].singles})
    for (Buffer& buffer : *buffers)
      if (buffer.piece && buffer.piece->unit == unit && has_changed(0, buffer)) write_back(0, buffer);
}

// Copies parameters that were changed by hand, and which the other processes do not have yet, to a buffer of device d.
void ParameterUnits::copy_changed(std::size_t d, const Buffer& buffer, const Piece& piece) {
  const WithoutEnqueuing conversions_let_nothing_go;  // which would take the mutex
  const DeviceState& device = device_state(homes_[d].device);
  for (const auto& [i, values] : units_[piece.unit].changed) {
    const std::int64_t begin = units_[piece.unit].begins[i];
    if (!piece.has(begin)) continue;
    const Tensor converted = is_converted(piece) ? copied(values, device_state(Device()), piece.dtype) : values;
    const std::size_t element = size_of(piece.dtype), bytes = std::size_t(values.numel()) * element;
    device.backend.copy(StreamAccess::handle(homes_[d].copies),
                        {.to = buffer.memory.impl()->data() + std::size_t(begin - piece.begin) * element,
                         .from = converted.impl()->data(),
                         .to_device = device.device.index(),
                         .row_bytes = bytes,
                         .to_pitch = bytes,
                         .from_pitch = bytes});
  }
}

// Copies the parameters that were changed in the buffer to the host, where they stay until all processes meet: the
// parts of the others have their former values until then. The host waits, for work that may wait for other processes,
// and these for an exchange: so the mutex is released meanwhile. The buffer stays.
void ParameterUnits::keep_on_host(std::size_t d, Buffer& buffer, Lock& lock) {
  const DeviceState& device = device_state(homes_[d].device);
  const Stream copies = homes_[d].copies;
  const Unit& unit = units_[buffer.piece->unit];
  const std::vector<std::uint64_t> present = versions_of(d, *buffer.piece);
  struct Changed {
    std::size_t parameter;
    Tensor values;
    const std::byte* from;
  };
  std::vector<Changed> all;
  std::size_t at = 0;
  for (std::size_t i = 0; i < unit.begins.size(); ++i) {
    if (!buffer.piece->has(unit.begins[i])) continue;
    const bool has_changed = present[at] != buffer.versions[at];
    ++at;
    if (!has_changed || !unit.parameters[d][i]) continue;
    const std::size_t element = size_of(unit.dtype);
    all.push_back(
        {i, make_tensor(device_state(Device()), {std::int64_t(unit.parameters[d][i]->bytes / element)}, unit.dtype),
         buffer.memory.impl()->data() + std::size_t(unit.begins[i] - buffer.piece->begin) * element});
  }
  const Piece piece = *buffer.piece;
  const std::uint64_t brought = buffer.brought;
  std::exception_ptr failure;
  const std::vector<std::uint64_t> before = std::exchange(buffer.versions, present);  // later changes are others
  ++buffer.kept;
  lock.unlock();
  try {
    for (const Changed& each : all) {
      const std::size_t bytes = each.values.impl()->storage->bytes;
      device.backend.copy(StreamAccess::handle(copies), {.to = each.values.impl()->data(),
                                                         .from = each.from,
                                                         .from_device = device.device.index(),
                                                         .row_bytes = bytes,
                                                         .to_pitch = bytes,
                                                         .from_pitch = bytes});
    }
    copies.synchronize();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (Buffer* const same = find(d, piece); same && same->brought == brought) {
    --same->kept;
    if (failure) same->versions = before;
  }
  if (failure) std::rethrow_exception(failure);
  for (Changed& each : all) units_[piece.unit].changed.insert_or_assign(each.parameter, std::move(each.values));
  forget_other_forms(d, piece.unit);
}

ParameterUnits::Buffer* ParameterUnits::find_changed() {
  for (std::vector<Buffer>* const buffers : {&homes_[0].buffers, &homes_[0].singles})
    for (Buffer& buffer : *buffers)
      if (has_changed(0, buffer)) return &buffer;
  return nullptr;
}

// With an exchange: keeps all changes in place, so that any buffer can be emptied.
void ParameterUnits::keep_changes(Lock& lock) {
  for (Buffer* changed; exchange_ && (changed = find_changed());) {
    for (const Stream& user : changed->users) homes_[0].copies.wait(user.record());
    keep_on_host(0, *changed, lock);
  }
}

// Units that others than device d hold, or in other dtypes, have former values.
void ParameterUnits::forget_other_forms(std::size_t d, std::size_t unit) {
  for (std::size_t other = 0; other < homes_.size(); ++other)
    for (std::vector<Buffer>* const buffers : {&homes_[other].buffers, &homes_[other].singles})
      for (Buffer& its : *buffers)
        if (its.piece && its.piece->unit == unit && (other != d || is_converted(*its.piece)))
          its.piece.reset(), its.kept = 0;
  for (Converted& converted : units_[unit].converted) converted.is_stale = true;
}

// Returns true if parameters were changed by hand in all processes. Throws in all of them if the changes differ.
bool ParameterUnits::agree_on_changes() {
  std::string changes;
  {
    Lock lock(mutex_);
    enter_step(0, current_stream(homes_[0].device));
    let_doubtful_go();
    keep_changes(lock);
    for (std::size_t u = 0; u < units_.size(); ++u)
      for (const auto& [i, values] : units_[u].changed) {
        const std::string_view bytes(reinterpret_cast<const char*>(values.impl()->data()),
                                     values.impl()->storage->bytes);
        changes += text("new values of ", values.numel(), " elements, parameter ", i, " of bucket ", u, ", with hash ",
                        std::hash<std::string_view>()(bytes), '\n');
      }
  }
  bool is_any = false;
  world_.agree(changes, "changes of sharded parameters", [&](const std::vector<std::string>& of_each) {
    is_any = std::ranges::any_of(of_each, [](const std::string& each) { return !each.empty(); });
    if (is_any)
      expect_same_lines(
          "[DataParallel] expected the same changes of parameters (Shard::parameters) by hand in all processes since "
          "the "
          "last pass or step",
          world_, of_each);
  });
  return is_any;
}

// Copies the parameters that were changed by hand to this process's parts, on the current streams. The other processes
// do the same.
void ParameterUnits::send_changes() {
  const NoGrad guard;
  const WithoutEnqueuing copies_let_nothing_go;  // which would take the mutex
  for (Unit& unit : units_) {
    for (const auto& parameter : unit.changed)
      for_parts(unit.part, unit.begins[parameter.first], parameter.second.numel(),
                [&](std::size_t rank, std::int64_t within, std::int64_t at, std::int64_t count) {
                  const Tensor own = held(unit, rank, within, count);
                  if (own.defined()) copy_values(own, elements(parameter.second, at, count));
                });
    if (unit.changed.empty()) continue;
    unit.changed.clear();
    for (Converted& converted : unit.converted) converted.is_stale = true;
  }
}

}  // namespace lockstep
