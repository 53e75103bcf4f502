#include "runtime/host/process_collective.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::host {
namespace {

constexpr std::size_t kPieceBytes = 256 << 10;
constexpr std::size_t kAhead = 4;  // pieces under way to the next process: with what is added they fit a core's cache

constexpr std::size_t kEveryone = std::size_t(-1);  // as the owner of a sum

template <class Pointer>
Pointer advanced(Pointer data, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  return data ? static_cast<Byte*>(data) + bytes : data;
}

// Not filled: every byte of it is written before it is read.
using Buffer = std::unique_ptr<std::byte[]>;
Buffer buffer(std::size_t bytes) { return std::make_unique_for_overwrite<std::byte[]>(bytes); }

void wait_for(PendingMessage& message, const char* what) {
  if (message) message->wait(what);
  message.reset();
}

}  // namespace

ProcessCollective::ProcessCollective(const CollectiveCall& call, const Peers& peers, std::size_t sequence)
    : kind_(call.kind),
      name_(call.name),
      dtype_(call.dtype),
      op_(call.op),
      count_(call.count),
      first_rank_(call.first_rank),
      root_(std::size_t(call.root)),
      counts_(call.counts.begin(), call.counts.end()),
      devices_(peers.devices),
      transfers_(call.transfers.begin(), call.transfers.end()),
      transport_(peers.transport),
      channel_(peers.channels + int(sequence % Transport::kChannels)),
      process_(peers.process),
      processes_(peers.devices.size()) {
  for (const CollectivePart& part : call.parts) {
    sends_.push_back(part.send);
    receives_.push_back(part.receive);
  }
}

std::size_t ProcessCollective::process_of(std::size_t rank) const {
  std::size_t process = 0;
  for (std::size_t end = devices_[0]; rank >= end; end += devices_[process]) ++process;
  return process;
}

PendingMessage ProcessCollective::send(std::size_t to, const void* data, std::size_t bytes) const {
  return transport_->send(int(to), channel_, data, bytes);
}
PendingMessage ProcessCollective::receive(std::size_t from, void* data, std::size_t bytes) const {
  return transport_->receive(int(from), channel_, data, bytes);
}

std::vector<void*> ProcessCollective::all_targets(std::size_t offset) const {
  std::vector<void*> targets;
  for (void* const receive : receives_) targets.push_back(advanced(receive, offset * size_of(dtype_)));
  return targets;
}

void ProcessCollective::run() {
  const auto target_of = [&](std::size_t rank) {
    return is_here(rank) ? std::vector<void*>{receives_[rank - first_rank_]} : std::vector<void*>();
  };
  const auto source_of = [&](std::size_t rank) { return is_here(rank) ? sends_[rank - first_rank_] : nullptr; };
  switch (kind_) {
    case CollectiveKind::all_reduce: return add_up(receives_, kEveryone, {0, count_});
    case CollectiveKind::reduce: return add_up(target_of(root_), process_of(root_), {0, count_});
    case CollectiveKind::broadcast: return pass_on(source_of(root_), process_of(root_), receives_, count_);
    case CollectiveKind::reduce_scatter:
      for (std::size_t rank = 0, at = 0; rank < counts_.size(); at += counts_[rank++])
        add_up(target_of(rank), process_of(rank), {at, counts_[rank]});
      return;
    case CollectiveKind::all_gather:
      for (std::size_t rank = 0, at = 0; rank < counts_.size(); at += counts_[rank++])
        pass_on(source_of(rank), process_of(rank), all_targets(at), counts_[rank]);
      return;
    case CollectiveKind::send_receive: return exchange();
    case CollectiveKind::barrier: {
      std::uint64_t token = 0;  // of any dtype
      for (std::size_t p = 0; p < processes_; ++p) pass_on(&token, p, {&token}, 1);
      return;
    }
  }
}

// The sum over all ranks of a span of what they send, for `targets` of the process `owner`, or of every process.
void ProcessCollective::add_up(std::vector<void*> targets, std::size_t owner, Span span) {
  if (span.count == 0) return;
  const bool is_last = process_ + 1 == processes_, for_all = owner == kEveryone;
  const bool gets_sum = (for_all && !is_last) || (owner == process_ && !is_last);
  const std::size_t element = size_of(dtype_), wide = carried_size(dtype_, op_);
  const std::size_t length = kPieceBytes / wide, pieces = (span.count + length - 1) / length;
  const auto begin_of = [&](std::size_t i) { return i * length; };
  const auto count_of = [&](std::size_t i) { return std::min(length, span.count - i * length); };

  std::vector<const void*> sources;
  for (const void* const source : sends_) sources.push_back(advanced(source, span.first * element));
  const Buffer sum_elsewhere = buffer(is_last && targets.empty() ? span.count * element : 0);
  if (is_last && targets.empty()) targets = {sum_elsewhere.get()};
  RankReduction sum = {sources, targets, span.count};
  for (const std::size_t count : devices_) sum.ranks += count;

  const std::size_t ahead = std::min(kAhead, pieces);
  const Buffer incoming = buffer(process_ > 0 ? ahead * length * wide : 0);
  const Buffer outgoing = buffer(is_last ? 0 : ahead * length * wide);
  std::vector<PendingMessage> arriving(ahead), leaving(ahead), sums(gets_sum ? pieces : 0), sent;
  const auto expect = [&](std::size_t i) {
    arriving[i % ahead] = receive(process_ - 1, incoming.get() + i % ahead * length * wide, count_of(i) * wide);
  };
  const auto tell = [&](std::size_t i) {  // a piece of the sum is here
    const std::size_t bytes = count_of(i) * element;
    std::byte* const here = static_cast<std::byte*>(targets[0]) + begin_of(i) * element;
    if (for_all && process_ > 0) sent.push_back(send(process_ - 1, here, bytes));
    if (!for_all && owner != process_) sent.push_back(send(owner, here, bytes));
    if (is_last) return;
    for (std::size_t t = 1; t < targets.size(); ++t)
      std::memcpy(static_cast<std::byte*>(targets[t]) + begin_of(i) * element, here, bytes);
  };

  std::size_t told = 0;
  for (std::size_t i = 0; process_ > 0 && i < ahead; ++i) expect(i);
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t place = i % ahead * length * wide;
    if (process_ > 0) wait_for(arriving[i % ahead], name_);
    wait_for(leaving[i % ahead], name_);
    reduce_ranks(sum, dtype_, op_, begin_of(i), begin_of(i) + count_of(i),
                 process_ > 0 ? incoming.get() + place : nullptr, is_last ? nullptr : outgoing.get() + place);
    if (!is_last) leaving[i % ahead] = send(process_ + 1, outgoing.get() + place, count_of(i) * wide);
    if (gets_sum)
      sums[i] = receive(for_all ? process_ + 1 : processes_ - 1,
                        static_cast<std::byte*>(targets[0]) + begin_of(i) * element, count_of(i) * element);
    if (process_ > 0 && i + ahead < pieces) expect(i + ahead);
    if (is_last) tell(i);
    while (gets_sum && told < i && sums[told]->is_done()) tell(told++);
  }
  for (; gets_sum && told < pieces; ++told) {
    wait_for(sums[told], name_);
    tell(told);
  }
  for (PendingMessage& message : leaving) wait_for(message, name_);
  for (PendingMessage& message : sent) wait_for(message, name_);
}

// What the owner has, for the targets of all processes, from each to the next.
void ProcessCollective::pass_on(const void* source, std::size_t owner, std::vector<void*> targets, std::size_t count) {
  if (count == 0) return;
  const std::size_t length = kPieceBytes / size_of(dtype_), pieces = (count + length - 1) / length;
  const std::size_t next = (process_ + 1) % processes_, before = (process_ + processes_ - 1) % processes_;
  const bool is_owner = process_ == owner;
  std::vector<PendingMessage> arriving, sent;
  const auto at = [&](auto data, std::size_t i) { return advanced(data, i * length * size_of(dtype_)); };
  const auto bytes_of = [&](std::size_t i) { return std::min(length, count - i * length) * size_of(dtype_); };
  for (std::size_t i = 0; !is_owner && i < pieces; ++i)
    arriving.push_back(receive(before, at(targets[0], i), bytes_of(i)));
  for (std::size_t i = 0; i < pieces; ++i) {
    if (!is_owner) wait_for(arriving[i], name_);
    const void* const here = is_owner ? at(source, i) : at(static_cast<const void*>(targets[0]), i);
    if (next != owner) sent.push_back(send(next, here, bytes_of(i)));
    for (void* const target : targets)
      if (void* const to = at(target, i); to != here) std::memcpy(to, here, bytes_of(i));
  }
  for (PendingMessage& message : sent) wait_for(message, name_);
}

void ProcessCollective::exchange() {
  std::vector<PendingMessage> messages;
  for (const Transfer& transfer : transfers_) {
    const std::size_t bytes = transfer.count * size_of(dtype_);
    const auto from = std::size_t(transfer.from), to = std::size_t(transfer.to);
    if (bytes == 0 || (!is_here(from) && !is_here(to))) continue;
    if (is_here(from) && is_here(to))
      std::memmove(transfer.receive, transfer.send, bytes);
    else if (is_here(from))
      messages.push_back(send(process_of(to), transfer.send, bytes));
    else
      messages.push_back(receive(process_of(from), transfer.receive, bytes));
  }
  for (PendingMessage& message : messages) wait_for(message, name_);
}

}  // namespace lockstep::host
