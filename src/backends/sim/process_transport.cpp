// The transport of simulated processes, which are threads of this process: messages go through queues in memory.
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/runtime/simulation.h>

#include "core/ranked_mutex.h"
#include "core/text.h"
#include "distributed/transport.h"

namespace lockstep {
namespace {

using Mutex = RankedMutex<LockRank::transport>;
using Clock = std::chrono::steady_clock;

// The messages from one process to another on one channel: sent ones that are not received yet, and receives that wait
// for a message, both in order. Each receive has its own condition variable, because with a shared one each message
// would wake all waiting threads, most of them in vain.
struct Lane {
  struct Waiting {
    void* data;
    std::size_t bytes;
    bool done = false;
    bool is_one_of_many = false;  // somebody waits for any of several
    std::size_t got = 0;          // the message's size, if done
    RankedCondition over;         // notified when done, or when the job has failed
  };
  std::deque<std::string> sent;
  std::deque<std::shared_ptr<Waiting>> waiting;
};

struct Post {
  Mutex mutex;
  std::map<std::tuple<int, int, int>, Lane> lanes;  // from, to, channel
  std::optional<std::string> failure;
  RankedCondition any_over;  // notified when one of many is done, or when the job has failed
  std::vector<std::string> hosts;
  std::chrono::milliseconds limit;

  // Call it with the lock held. If several calls give a reason, the first one counts.
  void fail(const std::string& reason) {
    if (!failure) failure = reason;
    for (auto& [way, lane] : lanes)
      for (const auto& waiting : lane.waiting) waiting->over.notify_all();
    any_over.notify_all();
  }
};

void deliver(Post& post, Lane& lane) {
  while (!lane.sent.empty() && !lane.waiting.empty()) {
    Lane::Waiting& first = *lane.waiting.front();
    first.got = lane.sent.front().size();
    if (first.data) std::memcpy(first.data, lane.sent.front().data(), std::min(first.bytes, first.got));
    first.done = true;
    first.over.notify_all();
    if (first.is_one_of_many) post.any_over.notify_all();
    lane.waiting.pop_front();
    lane.sent.pop_front();
  }
}

class Sent final : public Message {
 public:
  void wait(const char*) override {}
};

class Received final : public Message {
 public:
  Received(std::shared_ptr<Post> post, std::shared_ptr<Lane::Waiting> waiting, int to, int from)
      : post_(std::move(post)), waiting_(std::move(waiting)), to_(to), from_(from) {}
  ~Received() override {
    const std::scoped_lock lock(post_->mutex);
    waiting_->data = nullptr;
  }

  void wait(const char* what) override {
    std::unique_lock lock(post_->mutex);
    const auto end = Clock::now() + post_->limit;
    while (!look(what))
      if (waiting_->over.wait_until(lock, end) == std::cv_status::timeout && !look(what))
        post_->fail(text("process ", from_, " on ", post_->hosts[std::size_t(from_)], " did not reach ", what,
                         " within ", post_->limit.count(), " ms, process ", to_, " waited for it"));
    check_size(what);
  }

  // Call these with the lock held.
  void await_with_others() { waiting_->is_one_of_many = true; }
  bool look(const char* what) const {
    if (waiting_->done) return true;
    if (post_->failure) throw CollectiveError(from_, what, waiting_->bytes, *post_->failure);
    return false;
  }
  void check_size(const char* what) const {
    if (waiting_->got == waiting_->bytes) return;
    post_->fail(text("process ", to_, " on ", post_->hosts[std::size_t(to_)], " expected ", waiting_->bytes,
                     " bytes from process ", from_, " on ", post_->hosts[std::size_t(from_)], " in ", what, ", got ",
                     waiting_->got));
    throw CollectiveError(from_, what, waiting_->bytes, *post_->failure);
  }

 private:
  const std::shared_ptr<Post> post_;
  const std::shared_ptr<Lane::Waiting> waiting_;
  const int to_, from_;
};

class ProcessTransport final : public Transport {
 public:
  ProcessTransport(std::shared_ptr<Post> post, int rank) : post_(std::move(post)), rank_(rank) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return int(post_->hosts.size()); }
  const std::string& host(int process) const override { return post_->hosts.at(std::size_t(process)); }
  std::chrono::milliseconds time_limit() const noexcept override { return post_->limit; }

  PendingMessage send(int to, int channel, const void* data, std::size_t bytes) override {
    const std::scoped_lock lock(post_->mutex);
    if (post_->failure) throw CollectiveError(to, "send", bytes, *post_->failure);
    Lane& lane = post_->lanes[{rank_, to, channel}];
    lane.sent.emplace_back(static_cast<const char*>(data), bytes);
    deliver(*post_, lane);
    return std::make_unique<Sent>();
  }

  PendingMessage receive(int from, int channel, void* data, std::size_t bytes) override {
    const std::scoped_lock lock(post_->mutex);
    if (post_->failure) throw CollectiveError(from, "receive", bytes, *post_->failure);
    Lane& lane = post_->lanes[{from, rank_, channel}];
    auto waiting = std::make_shared<Lane::Waiting>();
    waiting->data = data;
    waiting->bytes = bytes;
    lane.waiting.push_back(waiting);
    deliver(*post_, lane);
    return std::make_unique<Received>(post_, std::move(waiting), rank_, from);
  }

  std::size_t wait_any(std::span<const PendingMessage> messages, const char* what) override {
    std::unique_lock lock(post_->mutex);
    for (;; post_->any_over.wait(lock))
      for (std::size_t i = 0; i < messages.size(); ++i) {
        auto* const message = static_cast<Received*>(messages[i].get());
        if (!message) continue;
        message->await_with_others();
        if (!message->look(what)) continue;
        message->check_size(what);
        return i;
      }
  }

  void fail(const std::string& reason) noexcept override {
    const std::scoped_lock lock(post_->mutex);
    post_->fail(reason);
  }
  std::optional<std::string> failure() const override {
    const std::scoped_lock lock(post_->mutex);
    return post_->failure;
  }

 private:
  const std::shared_ptr<Post> post_;
  const int rank_;
};

}  // namespace

std::vector<World> simulate_processes(int count, std::chrono::milliseconds time_limit) {
  if (count < 1) throw InvalidArgument(text("[simulate_processes] expected at least one process, got ", count));
  const auto post = std::make_shared<Post>();
  post->limit = time_limit;
  for (int p = 0; p < count; ++p) post->hosts.push_back(text("simulated-host-", p));
  std::vector<World> worlds;
  for (int p = 0; p < count; ++p) worlds.emplace_back(std::make_shared<ProcessTransport>(post, p));
  return worlds;
}

}  // namespace lockstep
