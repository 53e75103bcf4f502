#include "cpu/process_collective.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/text.h"

namespace lockstep::host {
namespace {

constexpr std::size_t kPieceBytes = 512 << 10;  // a piece and an incoming piece fit a second-level cache of 1 MiB
constexpr std::size_t kLeastPieceBytes = 4 << 10;
constexpr std::size_t kAhead = 2;                // rounds in flight, so that links are busy during additions
constexpr std::size_t kIncomingBytes = 8 << 20;  // the most memory for incoming parts
constexpr std::size_t kLittleBytes = 64 << 10;   // if all ranks' data are no larger, every process sums all of them

template <class Pointer>
Pointer advanced(Pointer data, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  return data ? static_cast<Byte*>(data) + bytes : data;
}

// Uninitialized: every byte is written before it is read.
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

std::string ProcessCollective::process_name() const {
  return text("process ", process_, " on ", transport_->host(int(process_)));
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

// Sums the ranks' inputs; each process sums one slice of the elements, in rounds. In each round it sums one piece of
// its slice. All processes send and receive in the same order, so that messages match.
class ProcessCollective::Sums {
 public:
  /// `targets` begin at element `first`. They get this process's sums or, if `for_all`, the sums of all slices.
  Sums(const ProcessCollective& all, std::vector<Span> slices, std::vector<void*> targets, std::size_t first,
       bool for_all);

  /// Waits for the other processes.
  void run();

 private:
  struct Round {
    std::vector<PendingMessage> parts_in, parts_out, sums_in, sums_out;
  };

  void send_parts(std::size_t r);
  void add_piece(std::size_t r);
  void end(std::size_t r);

  Span piece(std::size_t r, std::size_t process) const;
  std::byte* incoming(std::size_t r, std::size_t rank) const;
  void* target(std::size_t t, Span piece) const { return advanced(targets_[t], (piece.first - first_) * element_); }
  const void* source(std::size_t d, Span piece) const { return advanced(all_.sends_[d], piece.first * element_); }
  template <class Function>
  void for_others(const Function& function) const;

  const ProcessCollective& all_;
  const std::vector<Span> slices_;  // the slice that each process sums
  const std::vector<void*> targets_;
  const std::size_t first_, element_;
  const bool for_all_;
  std::size_t ranks_ = 0;   // the number of ranks of all processes
  std::size_t length_ = 0;  // elements of a piece
  Buffer incoming_;
  std::vector<Round> rounds_;  // destroyed first, as the last member: messages must end before their memory is freed
};

ProcessCollective::Sums::Sums(const ProcessCollective& all, std::vector<Span> slices, std::vector<void*> targets,
                              std::size_t first, bool for_all)
    : all_(all),
      slices_(std::move(slices)),
      targets_(std::move(targets)),
      first_(first),
      element_(size_of(all.dtype_)),
      for_all_(for_all),
      ranks_(std::reduce(all.devices_.begin(), all.devices_.end())) {
  std::size_t longest = 0;
  for (const Span& slice : slices_) longest = std::max(longest, slice.count);
  if (longest == 0) return;
  const std::size_t most = std::clamp(kIncomingBytes / (kAhead * ranks_), kLeastPieceBytes, kPieceBytes) / element_;
  const std::size_t rounds = (longest + most - 1) / most;
  length_ = (longest + rounds - 1) / rounds;
  rounds_.resize(rounds);
  incoming_ = buffer(std::min(kAhead, rounds) * ranks_ * length_ * element_);
}

void ProcessCollective::Sums::run() {
  const std::size_t rounds = rounds_.size(), ahead = std::min(kAhead, rounds);
  for (std::size_t r = 0; r < ahead; ++r) send_parts(r);
  for (std::size_t r = 0; r < rounds; ++r) {
    add_piece(r);
    if (r + ahead < rounds) send_parts(r + ahead);
    if (r >= ahead) end(r - ahead);
  }
  for (std::size_t r = rounds - ahead; r < rounds; ++r) end(r);
}

// Starts the messages of round r. Sends to each other process, for the piece that it sums, the elements of our ranks.
// Receives, for the piece that this process sums, the elements of the ranks of all other processes.
void ProcessCollective::Sums::send_parts(std::size_t r) {
  Round& round = rounds_[r];
  const Span own = piece(r, all_.process_);
  for_others([&](std::size_t process, std::size_t first_rank) {
    const Span theirs = piece(r, process);
    for (std::size_t d = 0; theirs.count > 0 && d < all_.sends_.size(); ++d)
      round.parts_out.push_back(all_.send(process, source(d, theirs), theirs.count * element_));
    for (std::size_t d = 0; own.count > 0 && d < all_.devices_[process]; ++d)
      round.parts_in.push_back(all_.receive(process, incoming(r, first_rank + d), own.count * element_));
  });
}

void ProcessCollective::Sums::add_piece(std::size_t r) {
  Round& round = rounds_[r];
  for (PendingMessage& message : round.parts_in) wait_for(message, all_.name_);
  for (PendingMessage& message : round.parts_out) wait_for(message, all_.name_);  // sums may overwrite the sent parts
  if (const Span own = piece(r, all_.process_); own.count > 0) {
    RankReduction sum = {.sources = {}, .targets = {}, .count = own.count};
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      sum.sources.push_back(all_.is_here(rank) ? source(rank - all_.first_rank_, own) : incoming(r, rank));
    for (std::size_t t = 0; t < targets_.size(); ++t) sum.targets.push_back(target(t, own));
    reduce_ranks(sum, all_.dtype_, all_.op_, 0, own.count);
    if (for_all_)
      for_others([&](std::size_t process, std::size_t) {
        round.sums_out.push_back(all_.send(process, target(0, own), own.count * element_));
      });
  }
  if (for_all_)
    for_others([&](std::size_t process, std::size_t) {
      if (const Span theirs = piece(r, process); theirs.count > 0)
        round.sums_in.push_back(all_.receive(process, target(0, theirs), theirs.count * element_));
    });
}

void ProcessCollective::Sums::end(std::size_t r) {
  Round& round = rounds_[r];
  for (PendingMessage& message : round.sums_in) wait_for(message, all_.name_);
  if (for_all_)
    for_others([&](std::size_t process, std::size_t) {
      const Span theirs = piece(r, process);
      for (std::size_t t = 1; theirs.count > 0 && t < targets_.size(); ++t)
        std::memcpy(target(t, theirs), target(0, theirs), theirs.count * element_);
    });
  for (PendingMessage& message : round.sums_out) wait_for(message, all_.name_);
}

ProcessCollective::Span ProcessCollective::Sums::piece(std::size_t r, std::size_t process) const {
  const Span& slice = slices_[process];
  const std::size_t begin = std::min(r * length_, slice.count);
  return {slice.first + begin, std::min(length_, slice.count - begin)};
}

std::byte* ProcessCollective::Sums::incoming(std::size_t r, std::size_t rank) const {
  return incoming_.get() + (r % kAhead * ranks_ + rank) * length_ * element_;
}

// Calls function(process, its first rank) for each other process, starting with the one after this process, so that the
// processes do not all send to the same one at once.
template <class Function>
void ProcessCollective::Sums::for_others(const Function& function) const {
  std::size_t rank = all_.first_rank_ + all_.devices_[all_.process_];
  for (std::size_t process = all_.process_ + 1; process < all_.processes_; rank += all_.devices_[process++])
    function(process, rank);
  rank = 0;
  for (std::size_t process = 0; process < all_.process_; rank += all_.devices_[process++]) function(process, rank);
}

void ProcessCollective::run() {
  switch (kind_) {
    case CollectiveKind::all_reduce: return all_reduce();
    case CollectiveKind::reduce: return reduce();
    case CollectiveKind::broadcast:
      return pass_on(is_here(root_) ? sends_[root_ - first_rank_] : nullptr, process_of(root_), receives_, count_);
    case CollectiveKind::reduce_scatter: return reduce_scatter();
    case CollectiveKind::all_gather: return all_gather();
    case CollectiveKind::send_receive: return exchange();
    case CollectiveKind::barrier: {
      std::uint64_t token = 0;  // at least as large as an element of any dtype
      for (std::size_t p = 0; p < processes_; ++p) pass_on(&token, p, {&token}, 1);
      return;
    }
  }
}

void ProcessCollective::all_reduce() {
  const std::size_t ranks = std::reduce(devices_.begin(), devices_.end());
  if (count_ * size_of(dtype_) * ranks <= kLittleBytes)
    return Sums(*this, std::vector(processes_, Span{0, count_}), receives_, 0, false).run();
  std::vector<Span> slices;
  for (std::size_t p = 0; p < processes_; ++p) {
    const std::size_t begin = count_ / processes_ * p + std::min(p, count_ % processes_);
    slices.push_back({begin, count_ / processes_ + (p < count_ % processes_ ? 1 : 0)});
  }
  Sums(*this, std::move(slices), receives_, 0, true).run();
}

void ProcessCollective::reduce() {
  std::vector<Span> slices(processes_);
  slices[process_of(root_)].count = count_;
  std::vector<void*> targets;
  if (is_here(root_)) targets.push_back(receives_[root_ - first_rank_]);
  Sums(*this, std::move(slices), std::move(targets), 0, false).run();
}

// Sums the shard of every process's first rank, then that of every process's second rank, and so on.
void ProcessCollective::reduce_scatter() {
  const std::size_t most = *std::ranges::max_element(devices_);
  for (std::size_t d = 0; d < most; ++d) {
    std::vector<Span> slices(processes_);
    std::size_t rank = 0, at = 0;
    for (std::size_t p = 0; p < processes_; ++p)
      for (std::size_t own = 0; own < devices_[p]; at += counts_[rank++], ++own)
        if (own == d) slices[p] = {at, counts_[rank]};
    std::vector<void*> targets;
    if (d < receives_.size()) targets.push_back(receives_[d]);
    const std::size_t first = slices[process_].first;
    Sums(*this, std::move(slices), std::move(targets), first, false).run();
  }
}

// Copies the data of process `owner` to the targets of all processes, in a ring: each process forwards the data to the
// next process.
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

// Each process sends the data of its ranks to all others, so that all links work at once.
void ProcessCollective::all_gather() {
  struct Share {
    std::vector<void*> targets;
    std::size_t bytes;
    PendingMessage arriving;
  };
  std::vector<Share> shares;
  std::vector<PendingMessage> sent;
  for (std::size_t rank = 0, first = 0; rank < counts_.size(); first += counts_[rank++]) {
    const std::size_t bytes = counts_[rank] * size_of(dtype_);
    if (bytes == 0) continue;
    const std::vector<void*> targets = all_targets(first);
    if (!is_here(rank)) {
      shares.push_back({targets, bytes, receive(process_of(rank), targets[0], bytes)});
      continue;
    }
    const void* const source = sends_[rank - first_rank_];
    for (std::size_t after = 1; after < processes_; ++after)  // not all to the same process at once
      sent.push_back(send((process_ + after) % processes_, source, bytes));
    for (void* const target : targets)
      if (target != source) std::memcpy(target, source, bytes);
  }
  for (Share& share : shares) {
    wait_for(share.arriving, name_);
    for (std::size_t t = 1; t < share.targets.size(); ++t) std::memcpy(share.targets[t], share.targets[0], share.bytes);
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
