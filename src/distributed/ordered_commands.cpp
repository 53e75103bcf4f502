#include "distributed/ordered_commands.h"

#include <chrono>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "core/start_thread.h"
#include "core/text.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kWaitWhileUnwinding(2);  // the other processes may have the same error
constexpr std::size_t kMostSent = 256;                  // messages

}  // namespace

OrderedCommands::OrderedCommands(World world, Executor& executor, std::string name)
    : world_(std::move(world)),
      executor_(executor),
      name_(std::move(name)),
      channel_(world_.transport()->new_channels()) {
  listener_ = start_thread(name_, [this] { listen(); });
  try {
    runner_ = start_thread(name_, [this] { run(); });
  } catch (...) {
    fail(std::current_exception());
    listener_.join();
    throw;
  }
}

OrderedCommands::~OrderedCommands() {
  const auto limit =
      std::uncaught_exceptions() > 0 ? std::chrono::milliseconds(kWaitWhileUnwinding) : world_.time_limit();
  const auto end = std::chrono::steady_clock::now() + limit;
  try {
    ask(Kind::leave, {});
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, end, [this] { return has_ended_ || failure_; })) {
      lock.unlock();
      world_.transport()->fail(text("process ", world_.rank().value(), " on ", world_.host(world_.rank()),
                                    " has ended its ", name_, ", and waited ", limit.count(),
                                    " ms for the other processes to do so too"));
    }
  } catch (...) {  // the transport has failed, which nobody else may notice: a listener ends when all have left
    fail(std::current_exception());
  }
  listener_.join();
  runner_.join();
}

std::exception_ptr OrderedCommands::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void OrderedCommands::want(const Command& command) { ask(Kind::want, command); }
void OrderedCommands::want_together(const Command& command) { ask(Kind::together, command); }

void OrderedCommands::ask(Kind kind, const Command& command) {
  const std::scoped_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const Note note = {.kind = kind, .number = executed_, .command = command};
  is_first() ? arrange(note) : send(0, note);
}

void OrderedCommands::send(int to, const Note& note) {
  for (; sent_.size() >= kMostSent; sent_.pop_front()) sent_.front()->message->wait(name_.c_str());
  Sent& sent = *sent_.emplace_back(std::make_unique<Sent>(Sent{note, nullptr}));
  sent.message = world_.transport()->send(to, channel_, &sent.note, sizeof sent.note);
}

// In process 0.
void OrderedCommands::arrange(const Note& note) {
  switch (note.kind) {
    case Kind::want:
      // A process that has not executed the last such command yet asks for that one.
      if (const auto last = last_.find(note.command); last == last_.end() || last->second <= note.number)
        issue(Kind::execute, note.command);
      break;
    case Kind::together:
      if (++together_[note.command] < world_.size()) break;
      together_.erase(note.command);
      issue(Kind::execute, note.command);
      break;
    case Kind::leave:
      if (++left_ == world_.size()) issue(Kind::end, {});
      break;
    case Kind::execute:
    case Kind::end: break;  // come from process 0 alone
  }
}

void OrderedCommands::issue(Kind kind, const Command& command) {
  const Note note = {.kind = kind, .number = ++issued_, .command = command};
  if (kind == Kind::execute) last_[command] = issued_;
  for (int process = 1; process < world_.size(); ++process) send(process, note);
  queue_.push_back(note);
  changed_.notify_all();
}

// Process 0 receives from all others until they have left, and each other process from process 0 until the end.
void OrderedCommands::listen() noexcept {
  try {
    Transport& transport = *world_.transport();
    const int first = is_first() ? 1 : 0, last = is_first() ? world_.size() : 1;
    std::vector<Note> notes(std::size_t(last - first));
    std::vector<PendingMessage> messages;
    const auto receive = [&](std::size_t i) {
      return transport.receive(first + int(i), channel_, &notes[i], sizeof notes[i]);
    };
    for (std::size_t i = 0; i < notes.size(); ++i) messages.push_back(receive(i));
    for (std::size_t open = notes.size(); open > 0;) {
      const std::size_t i = transport.wait_any(messages, name_.c_str());
      const Note note = notes[i];
      const bool is_last = note.kind == Kind::leave || note.kind == Kind::end;
      messages[i] = is_last ? nullptr : receive(i);
      open -= is_last;
      const std::scoped_lock lock(mutex_);
      if (is_first()) {
        arrange(note);
      } else {
        queue_.push_back(note);
        changed_.notify_all();
      }
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void OrderedCommands::run() noexcept {
  for (;;) {
    Note note;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return failure_ || !queue_.empty(); });
      if (failure_) return;
      note = queue_.front();
      queue_.pop_front();
      if (note.kind == Kind::end) {
        for (const auto& sent : sent_) try {
            sent->message->wait(name_.c_str());
          } catch (...) {  // the transport has failed
          }
        has_ended_ = true;
        changed_.notify_all();
        return;
      }
    }
    try {
      executor_.execute(note.command);
    } catch (...) {
      return fail(std::current_exception());
    }
    const std::scoped_lock lock(mutex_);
    executed_ = note.number;
  }
}

void OrderedCommands::fail(std::exception_ptr error) noexcept {
  std::string why = "something failed";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    why = failure.what();
  } catch (...) {
  }
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(error);
    changed_.notify_all();
  }
  world_.transport()->fail(
      text("process ", world_.rank().value(), " on ", world_.host(world_.rank()), " failed in its ", name_, ": ", why));
  executor_.has_failed();
}

}  // namespace lockstep
