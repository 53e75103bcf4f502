// Parts of units that other processes hold (parallel/parameter_units.h).
//
// An exchange gives this process all parts of a piece: each device gets those of the devices with its number in all
// processes, in one of a fixed number of slots. From there the devices of the process copy for themselves, as if the
// parts were always there. An exchange is a collective; but a process takes part in it whatever its own threads are
// doing, and so a process may ask for any piece at any time: the processes execute the same exchanges in the same order
// (distributed/ordered_commands.h).
//
// A device that is in a pass takes a piece from its slot before another one comes there, also if its process is behind
// the others, so that it need not ask for the piece again. If need be, the process makes more slots, while there is
// memory. A device that takes nothing for some time, as one without rows, is not waited for until it takes a piece.
//
// An exchange waits for no work of devices, neither on streams nor for memory, because such work may wait for another
// process that waits for the exchange. So the slots get their memory before a pass, and devices copy only if that
// leaves a slot out of which no copies are pending: there is one slot more than a device has buffers. A single
// parameter gets a slot of its own only if there is memory for it at once.
//
// An update of the parts is a command too, which all ask for together: an exchange comes before or after it in all
// processes.
//
// Orders on streams, besides those of parameter_units.h, each by an event:
//   1. an exchange into a slot -> copies out of the slot, on each device;
//   2. those copies -> the next exchange into the slot (here the host waits: see find_free_slot());
//   3. all exchanges before an update -> the update of the parts (begin_update);
//   4. the update -> later exchanges (end_update), and their conversions of parts to 16 bits.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "distributed/ordered_commands.h"
#include "parallel/parameter_units.h"

namespace lockstep {

// All functions but execute() and has_failed() are called with the units' mutex held.
class ParameterUnits::Exchange final : OrderedCommands::Executor {
 public:
  Exchange(ParameterUnits& units, std::span<const Device> devices, const CommunicatorOptions& options);
  ~Exchange() override = default;
  /// Call before the parts are freed, without the lock: waits until no process needs them. Later work on streams()
  /// starts after all copies out of slots.
  void leave();

  /// All parts of a piece in this process: on each device the parts of its ranks, in order (for_parts_by_device()).
  struct Slot {
    std::optional<Piece> piece;
    std::vector<Tensor> shares;       // by device, bytes
    std::vector<cuda::Event> full;    // recorded after the exchange, by device
    std::vector<cuda::Event> copies;  // out of the slot, since then
    std::uint64_t number = 0;         // of the exchange
    std::vector<bool> passed;         // by device: it has taken this piece, or a later one, or is in no pass
  };
  /// Null if the piece is not in this process.
  Slot* find(const Piece& piece);
  /// Asks for the piece, and does not wait.
  void ask(const Piece& piece);
  /// Waits until the piece is in this process, and until it may be copied; releases the lock meanwhile. Throws
  /// CollectiveError, and InvalidArgument during an update.
  void await(Lock& lock, const Piece& piece);
  /// Call before copies out of a slot are enqueued, unless await() has returned.
  bool may_copy(const Piece& piece);
  /// Call when device d uses the piece, after its copies were enqueued.
  void has_taken(std::size_t d, const Piece& piece);
  /// Waits until all processes have called it; releases the lock meanwhile. The first `count` devices are in a pass
  /// then. Throws OutOfMemory.
  void begin_pass(Lock& lock, std::size_t count);
  /// A device is in a pass until it uses no parameters in it any more. Before a pass that may come, such as between
  /// forward and backward, it counts as in a pass for a second.
  enum class Place : std::uint8_t { outside, before_pass, in_pass };
  void set_place(std::size_t d, Place place);

  /// Waits until all processes have called it; releases the lock meanwhile. From then on until end_update() there are
  /// no exchanges. Later work on the current streams starts after all exchanges.
  void begin_update(Lock& lock);
  bool is_updating() const noexcept { return is_updating_; }
  /// Makes memory for new slots, of so many bytes on each device. Releases the lock meanwhile, because this thread may
  /// wait. Throws OutOfMemory.
  void reserve_slots(Lock& lock, std::size_t bytes_each);
  /// Call during an update if the units get other sizes: the slots get the reserved memory.
  void renew_slots();
  /// Later exchanges start after the present work of the current streams.
  void end_update();

  Communicator& communicator() noexcept { return communicator_; }
  const std::vector<Stream>& streams() const noexcept { return streams_; }

 private:
  using Clock = std::chrono::steady_clock;

  void execute(const OrderedCommands::Command& command) override;
  void has_failed() noexcept override;
  template <class Done>
  void wait(Lock& lock, const char* what, const Done& done);
  [[noreturn]] void throw_failure() const;
  void await_exchange(Lock& lock, const Piece& piece);
  template <class F>
  void for_slots(const F& f);
  void pass_all(std::size_t d);
  void wait_for_copies(const Slot& slot) const;
  void gather(Lock& lock, const Piece& piece);
  // unit_slots.cpp
  bool is_free(const Slot& slot) const;
  static bool is_copied(const Slot& slot);
  Slot* find_free_slot(Lock& lock);
  void note_idle_devices();
  void free_extra_slots(const Slot* but_for);
  std::size_t slot_bytes() const { return units_.unit_bytes_ / streams_.size(); }
  std::size_t bytes_in_slot(const Piece& piece) const;
  bool is_in_common_slot(const Piece& piece) const;
  void free_singles(std::size_t most);
  void when_there_is_room(Lock& lock, const std::function<void()>& make);
  void fit(Slot& slot, std::size_t bytes_each) const;
  void take_reserved();
  Slot* single_slot(std::size_t bytes_each);
  Slot& slot_for(Lock& lock, const Piece& piece);

  static constexpr std::chrono::microseconds kBetweenQuestions{200};  // of the host to devices

  ParameterUnits& units_;
  std::vector<Stream> streams_;  // of exchanges, by device
  Communicator communicator_;
  RankedCondition changed_;
  std::list<Slot> slots_;                      // of slot_bytes() on each device, for any piece
  std::list<Slot> singles_;                    // for single parameters; of their sizes
  std::vector<std::vector<Tensor>> reserved_;  // memory for slots, by device
  std::set<Piece> asked_;                      // that did not come yet
  std::map<Piece, int> awaited_;               // the number of threads that wait for each piece
  std::multiset<Piece> waits_to_copy_;         // that are there, but must not be copied yet
  std::vector<Place> places_;                  // by device
  std::vector<Clock::time_point> since_;       // by device: when it came to its place
  std::vector<bool> is_idle_;                  // by device: it kept others waiting, and has taken nothing since
  std::size_t beginning_ = 0;                  // devices that will be in the next pass
  std::uint64_t passes_ = 0;                   // that have begun
  bool awaits_others_ = false;                 // for an update or a pass
  bool is_short_of_memory_ = false;            // for an exchange
  std::uint64_t exchanges_ = 0;
  bool is_updating_ = false;
  bool has_failed_ = false;
  std::optional<OrderedCommands> commands_;
};

}  // namespace lockstep
