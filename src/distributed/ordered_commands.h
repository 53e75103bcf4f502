// OrderedCommands: all processes execute the same commands in the same order, each in a thread of its own, whatever the
// process itself is doing. So a process can have others take part in a collective that they did not ask for.
//
// Any process asks for a command; process 0 gives it its place in the order, and tells all.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <lockstep/distributed/world.h>

#include "core/ranked_mutex.h"
#include "distributed/transport.h"

namespace lockstep {

class OrderedCommands {
 public:
  using Command = std::array<std::int64_t, 4>;  ///< Numbers whose meaning the users define.

  class Executor {
   public:
    virtual ~Executor() = default;
    /// Called for one command after the other. If it throws, the transport fails.
    virtual void execute(const Command& command) = 0;
    /// No more commands will be executed: failure() says why. May be called while execute() waits, to wake it up.
    virtual void has_failed() noexcept = 0;
  };

  /// All processes of the world, which has several, construct it in the same order. `name` says what the commands are
  /// for, in error messages. Throws BackendError if the process may have no more threads.
  OrderedCommands(World world, Executor& executor, std::string name);
  /// Until all processes are here, this process goes on executing commands: waits for them, at most for the world's
  /// time limit, and then makes the transport fail. Does not wait long while an exception unwinds the stack.
  ~OrderedCommands();
  OrderedCommands(const OrderedCommands&) = delete;
  OrderedCommands& operator=(const OrderedCommands&) = delete;

  /// Asks for a command, and does not wait. All that ask for the same one before they have executed it get one.
  /// Throws what failure() has.
  void want(const Command& command);
  /// Asks for a command that is executed once all processes have asked for it.
  void want_together(const Command& command);
  /// The failure of the transport, or of a command in this process; null if there was none.
  std::exception_ptr failure() const;

 private:
  enum class Kind : std::int32_t { want, together, leave, execute, end };
  struct Note {
    Kind kind;
    std::int32_t unused = 0;
    std::uint64_t number;  // of the last command that the sender has executed, or of this command
    Command command;
  };
  struct Sent {
    Note note;
    PendingMessage message;
  };

  bool is_first() const noexcept { return world_.is_first(); }
  void ask(Kind kind, const Command& command);
  void listen() noexcept;
  void run() noexcept;
  void fail(std::exception_ptr error) noexcept;

  // Call these with the mutex held.
  void send(int to, const Note& note);
  void arrange(const Note& note);
  void issue(Kind kind, const Command& command);

  const World world_;
  Executor& executor_;
  const std::string name_;
  const int channel_;
  mutable RankedMutex<LockRank::ordered_commands> mutex_;  // guards all below
  RankedCondition changed_;
  std::deque<Note> queue_;                  // commands that are not executed yet
  std::deque<std::unique_ptr<Sent>> sent_;  // messages that may not have arrived yet
  std::uint64_t executed_ = 0;              // commands
  std::exception_ptr failure_;              // the first
  bool has_ended_ = false;                  // all processes have left
  std::uint64_t issued_ = 0;                // by process 0
  std::map<Command, std::uint64_t> last_;   // in process 0: the last number of each command
  std::map<Command, int> together_;         // in process 0: the processes that have asked
  int left_ = 0;                            // in process 0: processes
  std::thread listener_, runner_;
};

}  // namespace lockstep
