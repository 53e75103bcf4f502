// Parameters of ParameterUnits in 16 bits, for autocast: the shares are converted once after each change, and units are
// brought from the converted shares. The functions here are called with the units' mutex held.
#include <algorithm>
#include <utility>

#include "parallel/parameter_units.h"
#include "parallel/unit_exchange.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

ParameterUnits::Piece ParameterUnits::whole(std::size_t unit, DType dtype) const {
  return {unit, dtype, 0, units_[unit].part * std::int64_t(homes_.size() * processes_)};
}

// A unit that the device uses in 16 bits does not also come whole in its own dtype: only few of its parameters are used
// so, such as those of norms. (What the device itself has used decides: so all devices need the same pieces.)
ParameterUnits::Piece ParameterUnits::piece_for(const Place& place, DType dtype) {
  const Piece all = whole(place.unit, dtype);
  const auto& converted = homes_[place.device].converted;
  if (is_converted(all) || !converted.contains(place.unit) || find(place.device, all)) return all;
  return {place.unit, dtype, place.begin, place.size};
}

void ParameterUnits::note_conversion(Home& home, const Piece& piece) {
  if (is_converted(piece)) home.converted.insert_or_assign(piece.unit, true);
}

std::size_t ParameterUnits::buffer_bytes(const Piece& piece) const {
  return is_converted(piece) ? std::size_t(unit_elements_) * size_of(piece.dtype) : unit_bytes_;
}

// Where the parts of all ranks are, by device. With an exchange the piece must be in this process.
const std::vector<Tensor>& ParameterUnits::shares_of(const Piece& piece) const {
  if (exchange_) return exchange_->find(piece)->shares;
  const Unit& unit = units_[piece.unit];
  return is_converted(piece) ? std::ranges::find(unit.converted, piece.dtype, &Converted::dtype)->shares : unit.shares;
}

ParameterUnits::Buffer& ParameterUnits::single_buffer(std::size_t d, const Piece& piece) {
  Tensor memory = make_without_waiting(homes_[d].copies, piece.size * std::int64_t(size_of(piece.dtype)), kUInt8);
  Buffer& buffer = homes_[d].singles.emplace_back();
  buffer.memory = std::move(memory);
  return buffer;
}

// Single parameters take at most half a unit, besides those that the present operation uses. The oldest go first.
void ParameterUnits::free_singles(std::size_t d) {
  std::vector<Buffer>& singles = homes_[d].singles;
  std::size_t bytes = 0;
  for (const Buffer& single : singles) bytes += single.memory.impl()->storage->bytes;
  while (bytes > unit_bytes_ / 2) {
    const auto age = [](const Buffer& single) { return std::pair(single.kept > 0, single.used); };
    const auto oldest = std::ranges::min_element(singles, {}, age);
    if (oldest->kept > 0) return;
    bytes -= oldest->memory.impl()->storage->bytes;
    empty(d, *oldest);
    record_users(*oldest);
    singles.erase(oldest);
  }
}

// For device d. Converts the shares if they have changed since they were converted, those of all other units too: then
// the streams of copies wait for each other once in a step.
void ParameterUnits::convert_shares(std::size_t d, std::size_t unit, DType dtype) {
  for (std::size_t other = 0; other < homes_.size(); ++other) enter_step(other, homes_[d].copies);
  std::vector<Converted>& all = units_[unit].converted;
  auto found = std::ranges::find(all, dtype, &Converted::dtype);
  if (found == all.end()) {
    Converted made = {.dtype = dtype};
    for (std::size_t h = 0; h < homes_.size(); ++h)
      made.shares.push_back(make_without_waiting(homes_[h].copies, units_[unit].shares[h].numel(), dtype));
    found = all.insert(all.end(), std::move(made));
  }
  found->is_used = true;
  if (!found->is_stale) return;

  const WithoutEnqueuing conversions_let_nothing_go;  // which would take the mutex
  has_copied_ = true;
  if (converts_after_copies_) let_copies_wait_for_each_other();
  converts_after_copies_ = false;
  for (const Unit& each : units_)
    for (const Converted& converted : each.converted)
      for (std::size_t h = 0; h < homes_.size() && converted.is_stale; ++h) {
        const StreamGuard on(homes_[h].copies);
        copy_values(converted.shares[h], each.shares[h]);
      }
  let_copies_wait_for_each_other();
  for (Unit& each : units_)
    for (Converted& converted : each.converted) converted.is_stale = false;
}

void ParameterUnits::mark_converted_stale() {
  converts_after_copies_ = true;
  for (Unit& unit : units_)
    for (Converted& converted : unit.converted) converted.is_stale = true;
}

// After an update, and so after all copies.
void ParameterUnits::free_unused_conversions(Unit& unit) {
  std::erase_if(unit.converted, [](const Converted& converted) { return !converted.is_used; });
  for (Converted& converted : unit.converted) converted.is_used = false;
}

void ParameterUnits::forget_unused_conversions(Home& home) {
  std::erase_if(home.converted, [](const auto& unit) { return !unit.second; });
  for (auto& [unit, is_used] : home.converted) is_used = false;
}

void ParameterUnits::let_copies_wait_for_each_other() {
  for (const Home& home : homes_) {
    const cuda::Event event = home.copies.record();
    for (const Home& other : homes_)
      if (&other != &home) other.copies.wait(event);
  }
}

}  // namespace lockstep
