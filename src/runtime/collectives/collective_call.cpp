#include "runtime/collectives/collective_call.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();

bool has_root(CollectiveKind kind) { return kind == CollectiveKind::reduce || kind == CollectiveKind::broadcast; }
bool has_counts(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather;
}

[[noreturn]] void throw_not_addressable(const CollectiveCall& call, std::size_t count) {
  throw InvalidArgument(text('[', call.name, "] expected a count whose bytes can be addressed, got ", count));
}

void check_rank(const CollectiveCall& call, const char* what, int got) {
  if (got < 0 || std::size_t(got) >= call.ranks)
    throw InvalidArgument(text('[', call.name, "] expected ", what, " from 0 to ", call.ranks - 1, ", got ", got));
}

void check_numbers(const CollectiveCall& call) {
  if (call.dtype > kFloat64) throw DTypeError(text('[', call.name, "] expected a dtype, got ", call.dtype));
  if (call.op > ReduceOp::min)
    throw InvalidArgument(text('[', call.name, "] expected sum, mean, max or min, got operation ", int(call.op)));
  if (call.op == ReduceOp::mean && !is_floating(call.dtype))
    throw DTypeError(text('[', call.name, "] expected a floating dtype for the mean, got ", call.dtype));
  if (has_root(call.kind)) check_rank(call, "a root", call.root);
  if (has_counts(call.kind) && call.counts.size() != call.ranks)
    throw InvalidArgument(
        text('[', call.name, "] expected counts of ", call.ranks, " ranks, got ", call.counts.size()));
  std::size_t room = kMax / size_of(call.dtype);
  const auto fits = [&](std::size_t count) {
    if (count > room) throw_not_addressable(call, count);
    room -= count;
  };
  if (has_counts(call.kind)) {
    for (const std::size_t count : call.counts) fits(count);
  } else if (call.kind == CollectiveKind::send_receive) {
    for (const Transfer& transfer : call.transfers) {
      check_rank(call, "a sending rank", transfer.from);
      check_rank(call, "a receiving rank", transfer.to);
      fits(transfer.count);
    }
  } else {
    fits(call.count);
  }
}

// Returns true if a rank's two buffers overlap exactly as an in-place operation requires.
bool is_in_place(const CollectiveCall& call, std::size_t rank) {
  const auto send = reinterpret_cast<std::uintptr_t>(call.parts[rank].send);
  const auto receive = reinterpret_cast<std::uintptr_t>(call.parts[rank].receive);
  if (!has_counts(call.kind)) return send == receive;
  const std::size_t before = std::accumulate(
      call.counts.begin(), call.counts.begin() + std::ptrdiff_t(call.first_rank + rank), std::size_t(0));
  const std::size_t offset = before * size_of(call.dtype);
  return call.kind == CollectiveKind::reduce_scatter ? receive == send + offset : send == receive + offset;
}

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool written = false;
  std::size_t rank = 0;
};

// Adds the rank's memory ranges to `ranges`. The two buffers of an in-place operation are one range that is written.
void add_ranges(const CollectiveCall& call, std::size_t rank, std::vector<Range>& ranges) {
  const std::size_t first = ranges.size();
  for (const MemoryAccess& access : accesses_of(call, rank)) {
    const auto begin = reinterpret_cast<std::uintptr_t>(access.region.data);
    const bool written = access.kind == AccessKind::write;
    if (access.region.bytes() > kMax - begin) throw_not_addressable(call, access.region.bytes() / size_of(call.dtype));
    if (begin == 0 || begin % size_of(call.dtype) != 0)
      throw InvalidArgument(text('[', call.name, "] expected a ", written ? "receive" : "send", " buffer of ",
                                 access.region.bytes(), " bytes of ", call.dtype, " for rank ", rank, ", got ",
                                 access.region.data));
    ranges.push_back({begin, begin + access.region.bytes(), written, rank});
  }
  if (call.kind == CollectiveKind::send_receive || ranges.size() != first + 2 || !is_in_place(call, rank)) return;
  const Range last = ranges.back();
  ranges.pop_back();
  ranges.back() = {std::min(ranges.back().begin, last.begin), std::max(ranges.back().end, last.end), true, rank};
}

// Throws InvalidArgument if a written range overlaps any other range.
void check_overlaps(const CollectiveCall& call, std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const Range* furthest = nullptr;          // the range so far with the highest end
  const Range* furthest_written = nullptr;  // the written range so far with the highest end
  for (const Range& range : ranges) {
    const Range* const other = range.written ? furthest : furthest_written;
    if (other != nullptr && other->end > range.begin)
      throw InvalidArgument(text('[', call.name,
                                 "] expected buffers that are exactly in place or do not overlap, got buffers of rank ",
                                 other->rank, " and rank ", range.rank, " that overlap"));
    if (furthest == nullptr || range.end > furthest->end) furthest = &range;
    if (range.written && (furthest_written == nullptr || range.end > furthest_written->end)) furthest_written = &range;
  }
}

}  // namespace

std::vector<MemoryAccess> accesses_of(const CollectiveCall& call, std::size_t rank) {
  const CollectivePart& part = call.parts[rank];
  std::vector<MemoryAccess> accesses;
  const auto add = [&](const void* data, std::size_t count, AccessKind kind) {
    if (count > 0) accesses.push_back({{data, count * size_of(call.dtype), 1, 0}, kind});
  };
  const auto reads = [&](std::size_t count) { add(part.send, count, AccessKind::read); };
  const auto writes = [&](std::size_t count) { add(part.receive, count, AccessKind::write); };
  const std::size_t among_all = call.first_rank + rank;
  const bool is_root = among_all == std::size_t(call.root);
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      reads(call.count);
      writes(call.count);
      break;
    case CollectiveKind::reduce:
      reads(call.count);
      if (is_root) writes(call.count);
      break;
    case CollectiveKind::broadcast:
      if (is_root) reads(call.count);
      writes(call.count);
      break;
    case CollectiveKind::reduce_scatter:
      reads(call.count);
      writes(call.counts[among_all]);
      break;
    case CollectiveKind::all_gather:
      reads(call.counts[among_all]);
      writes(call.count);
      break;
    case CollectiveKind::send_receive:
      for (const Transfer& transfer : call.transfers) {
        if (std::size_t(transfer.from) == among_all) add(transfer.send, transfer.count, AccessKind::read);
        if (std::size_t(transfer.to) == among_all) add(transfer.receive, transfer.count, AccessKind::write);
      }
      break;
    case CollectiveKind::barrier: break;
  }
  return accesses;
}

std::vector<std::size_t> senders_of(const CollectiveCall& call, std::size_t rank) {
  std::vector<std::size_t> senders;
  const auto add = [&](std::size_t sender) {
    if (sender != rank) senders.push_back(sender);
  };
  const std::size_t first = call.first_rank, root = std::size_t(call.root);  // ranks of all processes' devices
  const auto add_all = [&](const auto& sends) {
    for (std::size_t other = 0; other < call.parts.size(); ++other)
      if (sends(other)) add(other);
  };
  switch (call.kind) {
    case CollectiveKind::all_reduce: add_all([&](std::size_t) { return call.count > 0; }); break;
    case CollectiveKind::reduce: add_all([&](std::size_t) { return call.count > 0 && first + rank == root; }); break;
    case CollectiveKind::broadcast:
      if (call.count > 0 && root >= first && root - first < call.parts.size()) add(root - first);
      break;
    case CollectiveKind::reduce_scatter: add_all([&](std::size_t) { return call.counts[first + rank] > 0; }); break;
    case CollectiveKind::all_gather: add_all([&](std::size_t other) { return call.counts[first + other] > 0; }); break;
    case CollectiveKind::send_receive:
      for (const Transfer& transfer : call.transfers)
        if (std::size_t(transfer.to) == first + rank && transfer.count > 0 && std::size_t(transfer.from) >= first &&
            std::size_t(transfer.from) - first < call.parts.size())
          add(std::size_t(transfer.from) - first);
      break;
    case CollectiveKind::barrier: add_all([](std::size_t) { return true; }); break;
  }
  return senders;
}

void check(const CollectiveCall& call) {
  check_numbers(call);
  std::vector<Range> ranges;
  for (std::size_t rank = 0; rank < call.parts.size(); ++rank) add_ranges(call, rank, ranges);
  check_overlaps(call, ranges);
}

std::vector<RankReduction> reductions_of(const CollectiveCall& call) {
  std::vector<const void*> sends;
  std::vector<void*> receives;
  for (const CollectivePart& part : call.parts) {
    sends.push_back(part.send);
    receives.push_back(part.receive);
  }
  std::vector<RankReduction> reductions;
  const auto add = [&](std::vector<const void*> sources, std::vector<void*> targets, std::size_t count) {
    if (count > 0) reductions.push_back({std::move(sources), std::move(targets), count});
  };
  const auto root = std::size_t(call.root);
  const std::size_t element = size_of(call.dtype);
  switch (call.kind) {
    case CollectiveKind::all_reduce: add(sends, receives, call.count); break;
    case CollectiveKind::reduce: add(sends, {receives[root]}, call.count); break;
    case CollectiveKind::broadcast: add({sends[root]}, receives, call.count); break;
    case CollectiveKind::reduce_scatter:
      for (std::size_t rank = 0; rank < receives.size(); ++rank) {
        add(sends, {receives[rank]}, call.counts[rank]);
        for (const void*& send : sends) send = static_cast<const std::byte*>(send) + call.counts[rank] * element;
      }
      break;
    case CollectiveKind::all_gather:
      for (std::size_t rank = 0; rank < sends.size(); ++rank) {
        add({sends[rank]}, receives, call.counts[rank]);
        for (void*& receive : receives) receive = static_cast<std::byte*>(receive) + call.counts[rank] * element;
      }
      break;
    case CollectiveKind::send_receive:
      for (const Transfer& transfer : call.transfers) add({transfer.send}, {transfer.receive}, transfer.count);
      break;
    case CollectiveKind::barrier: break;
  }
  return reductions;
}

std::size_t bytes_of(const CollectiveCall& call) noexcept { return call.count * size_of(call.dtype); }

}  // namespace lockstep
