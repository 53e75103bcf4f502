// Parameters that are divided between the devices of a model (from Shard::hybrid on; docs/sharding.md).
//
// A unit is the parameters of one bucket, in one flat array. Each device holds a share of each unit, always. A unit is
// whole on a device only while the device uses it, in one of the device's buffers: an operation that takes the address
// of a parameter brings the unit (tensor/transient_memory.h), by copies from the shares of all devices, on a stream of
// its own. A unit goes when its buffer is needed for another one.
//
// Autocast uses parameters in 16 bits (converted()). Each device converts its shares, and units are brought from the
// converted shares. The few parameters of such a unit that are used in the unit's own dtype too are brought one by one.
//
// With P processes of D devices a unit has P * D equal parts, one for each rank. With Shard::hybrid device d of a
// process holds the parts of the ranks d, D + d, 2D + d, ...: so a process has all parts, and a device brings a unit
// without other processes. With Shard::parameters a device holds the part of its own rank, and the exchange
// (parallel/unit_exchange.h) brings those of the other processes first. It converts them, too: there are no converted
// shares then.
//
// Orders on streams, each by an event:
//   1. copies of a unit into a buffer -> work that uses the unit there;
//   2. that work -> copies of the next unit into the buffer;
//   3. all copies out of shares -> the update of the shares (begin_update);
//   4. the update of the shares -> later copies out of them (end_update), and their conversion;
//   5. the conversion of shares on all devices -> copies out of the converted shares;
//   6. those copies -> the next conversion. An update, which waits for all copies, is in between, or convert_shares()
//      lets the streams of copies wait for each other.
//
// Who holds the mutex must not wait for memory that work of a device still uses: that work may wait for other devices
// or processes, and their threads for the mutex. So memory is taken without waiting. If there is none, the mutex is
// released, and the use of the parameter begins again when there is room.
//
// A captured step (docs/captured-steps.md) finds no unit on any device, and leaves none: captured_units.cpp.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/distributed/world.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/tensor.h>

#include "core/ranked_mutex.h"
#include "parallel/bucket_layout.h"
#include "tensor/transient_memory.h"

namespace lockstep {

struct Storage;

class ParameterUnits final : public TransientOwner, public std::enable_shared_from_this<ParameterUnits> {
 public:
  /// All processes have equally many devices. Each device keeps at most `buffers` whole units, unless one operation
  /// uses more at once. `between_processes`: the processes divide the parameters, too; all must construct the units in
  /// the same order.
  ParameterUnits(std::span<const Device> devices, const World& world, std::size_t buffers, bool between_processes,
                 const CommunicatorOptions& options);
  ~ParameterUnits() override;

  /// The memory of parameters, taken from them: they are without memory on `device`, until add() gives them units. If
  /// that does not happen, the destructor gives the memory back.
  class Values {
   public:
    /// Throws InvalidArgument if another tensor is a view of a parameter, because the view would keep the old memory.
    Values(std::span<const std::vector<Tensor>> parameters, Device device);
    ~Values();
    Values(const Values&) = delete;
    Values& operator=(const Values&) = delete;
    const Tensor& operator[](std::size_t e) const { return values_[e]; }

   private:
    std::vector<Tensor> parameters_, values_;
  };

  /// A unit's shares in another dtype. They live from their first use to an update since which they were not used.
  struct Converted {
    DType dtype;
    std::vector<Tensor> shares = {};  ///< By device, as the unit's.
    bool is_stale = true;             ///< The unit's shares have changed since the conversion.
    bool is_used = false;             ///< Since the last update.
  };

  struct Unit {
    DType dtype;
    std::int64_t part;                                         ///< Elements of a rank's part.
    std::vector<Tensor> shares = {};                           ///< By device: its parts, [parts * part].
    std::vector<std::vector<const Storage*>> parameters = {};  ///< By device; null for a parameter that is gone.
    std::vector<std::int64_t> begins = {};                     ///< The first element of each parameter.
    std::vector<Converted> converted = {};
    /// With an exchange: values of parameters that were changed by hand, on the host, until all processes meet.
    std::map<std::size_t, Tensor> changed = {};
  };

  /// Adds a unit for each bucket of the layout, with these values. parameters[e][d] is parameter e on device d, without
  /// memory.
  void add(std::span<const std::vector<Tensor>> parameters, const Values& values, const BucketLayout& layout);
  /// New shares for a layout of all parameters. Throws OutOfMemory.
  std::vector<Unit> make_units(const BucketLayout& layout) const;
  /// Call before move_to(), which cannot wait for memory. Throws OutOfMemory.
  void reserve_slots_for(std::span<const Unit> units);
  /// Moves all parameters, which lie in these units, to new units of that layout. No operation may use them meanwhile.
  void move_to(std::vector<Unit> units, std::span<const std::vector<Tensor>> parameters, const BucketLayout& layout);
  /// True if the parameter lies in these units: not if it got other memory since, as by Parameter::reset().
  bool have(const Tensor& parameter) const;
  /// Call before a pass of the first `count` devices, in all processes: sends changes in place to the shares of all
  /// processes. Throws InvalidArgument in all of them if the changes differ.
  void begin_pass(std::size_t count);
  /// Device d begins backward.
  void begin_backward(std::size_t d);
  /// Device d has ended its part, or its forward part, after which backward comes.
  void leave_pass(std::size_t d, bool backward_follows) noexcept;
  /// Call before own parts are changed, in all processes: sends changes in place to the shares, and lets all units go.
  /// Later work on the current streams starts after all copies out of the shares. Throws as begin_pass().
  void begin_update();
  /// Call after own parts of these parameters were changed on the current streams, on all devices of all processes:
  /// sends the parts to the other processes that hold them. `communicator` is null for a single process.
  void end_update(std::span<const Tensor> parameters, Communicator* communicator);
  /// Call if an update has failed, instead of end_update().
  void abandon_update() noexcept;
  /// Adds the units to the HostState of this thread's step, if there is one.
  void use_in_step();

  /// Where a parameter lies.
  struct Place {
    std::size_t unit, device;
    std::int64_t begin;  ///< In elements, from the unit's first.
    std::int64_t size;   ///< Elements.
  };

  /// Elements of a unit in a dtype: the whole unit, or one parameter of it.
  struct Piece {
    std::size_t unit;
    DType dtype;
    std::int64_t begin, size;
    auto operator<=>(const Piece&) const = default;
    bool has(const Place& place) const noexcept {
      return unit == place.unit && begin <= place.begin && place.begin + place.size <= begin + size;
    }
    /// True if it has the parameter that begins there in the unit.
    bool has(std::int64_t parameter) const noexcept { return begin <= parameter && parameter < begin + size; }
  };

  void let_go(std::size_t brought) noexcept override;

 private:
  class Memory;
  class StepState;
  class ConvertedMemory;
  class Exchange;
  using Lock = std::unique_lock<RankedMutex<LockRank::transient_memory>>;
  struct Buffer {
    Tensor memory;                        // bytes
    std::optional<Piece> piece;           // what it holds
    std::optional<cuda::Event> full;      // recorded after the copies
    std::vector<Stream> users;            // streams with work that may use what it holds, or held
    std::vector<std::uint64_t> versions;  // of the piece's parameters, when it was brought; none if it is converted
    std::uint64_t brought = 0;            // another number for each time that a piece was brought
    std::uint64_t failures = 0;           // reported_failures before it was brought
    std::uint64_t used = 0;               // the clock, when it was last used
    int kept = 0;                         // threads that have taken an address for work that is not enqueued yet
  };
  struct NoRoom {  // for that many bytes on the stream's device, unless the host waits
    Stream stream;
    std::int64_t bytes;
    std::exception_ptr error;              // OutOfMemory
    static constexpr int kMostTries = 16;  // of make(): other threads may take what was made
    void make() const;
  };
  struct Use {  // of a parameter, in a dtype
    const Memory* memory = nullptr;
    DType dtype = {};
    auto operator<=>(const Use&) const = default;
  };
  struct Home {  // a device's buffers
    Device device;
    Stream copies;
    std::vector<Buffer> buffers = {};              // for whole units
    std::vector<Buffer> singles = {};              // for single parameters; of their sizes
    Use last = {}, before_last = {};               // since the last update
    std::map<std::pair<Use, Use>, Use> next = {};  // the use that followed two others
    std::optional<Piece> last_piece = {};          // the whole unit that was used last
    bool expects_another = false;                  // a unit was not yet brought ahead, since last_piece came into use
    std::map<std::size_t, bool> converted = {};    // units it uses in another dtype; true: since the last update
    std::uint64_t step = 0;                        // the captured step that its buffers belong to; 0: none
  };

  // These take the mutex: it guards the places too.
  std::byte* bring(const Memory& memory, DType dtype);
  void use_on(const Memory& memory, DType dtype, const StreamHandle& stream);
  void publish(const Memory& memory);
  Tensor own_part(const Memory& memory);
  void forget(const Memory& memory) noexcept;
  std::uint64_t layout();
  void begin_step();
  void end_step();
  bool is_updating();
  bool agree_on_changes();

  // Call these with the mutex held.
  std::byte* bring(const Memory& memory, DType dtype, Lock& lock);
  static Tensor make_without_waiting(const Stream& stream, std::int64_t elements, DType dtype);
  void enter_step(std::size_t d, const Stream& begin);
  void enter_step();
  void let_doubtful_go();
  void let_all_go();
  void use_shares_after_current_streams();
  void fit_buffers_to(const Unit& unit);
  Piece whole(std::size_t unit, DType dtype) const;
  bool is_whole(const Piece& piece) const { return piece == whole(piece.unit, piece.dtype); }
  bool is_converted(const Piece& piece) const { return piece.dtype != units_[piece.unit].dtype; }
  std::size_t buffer_bytes(const Piece& piece) const;
  Piece piece_for(const Place& place, DType dtype);
  Buffer* find(std::size_t d, const Piece& piece);
  Buffer* least_recently_used(std::size_t d, std::span<const Piece> but_for);
  Buffer& empty_buffer(std::size_t d, std::size_t bytes, std::span<const Piece> but_for);
  Buffer& single_buffer(std::size_t d, const Piece& piece);
  Buffer& fetch(std::size_t d, const Piece& piece, std::span<const Piece> but_for = {});
  void note_use(Home& home, const Use& use, const Piece& piece);
  void bring_ahead(std::size_t d);
  std::vector<std::uint64_t> versions_of(std::size_t d, const Piece& piece) const;
  bool has_changed(std::size_t d, const Buffer& buffer) const;
  void empty(std::size_t d, Buffer& buffer);
  void free_extra_buffers(std::size_t d);
  void free_singles(std::size_t d);
  void write_back(std::size_t d, Buffer& buffer);
  void write_changes_back(std::size_t unit);
  void keep_on_host(std::size_t d, Buffer& buffer, Lock& lock);
  Buffer* find_changed();
  void keep_changes(Lock& lock);
  void forget_other_forms(std::size_t d, std::size_t unit);
  void copy_changed(std::size_t d, const Buffer& buffer, const Piece& piece);
  bool comes_from_others(const Piece& piece) const;
  void send_changes();
  void convert_shares(std::size_t d, std::size_t unit, DType dtype);
  void mark_converted_stale();
  void free_unused_conversions(Unit& unit);
  void note_conversion(Home& home, const Piece& piece);
  static void forget_unused_conversions(Home& home);
  void let_copies_wait_for_each_other();
  const std::vector<Tensor>& shares_of(const Piece& piece) const;
  Tensor held(const Unit& unit, std::size_t rank, std::int64_t within, std::int64_t count) const;
  static void record_users(const Buffer& buffer);
  [[noreturn]] static void throw_gone(const Device& device);
  void free_after_copies(const Tensor& share) const;
  void free_after_copies(std::span<const Unit> units) const;
  void move_values(const Unit& to, std::int64_t begin, const Place& from, std::vector<Transfer>& transfers) const;
  void copy(std::size_t d, const Buffer& buffer, const Piece& piece, bool into_buffer);

  const World world_;
  const std::size_t process_, processes_, buffers_;
  RankedMutex<LockRank::transient_memory> mutex_;  // guards all below
  std::vector<Home> homes_;                        // by device
  std::vector<Unit> units_;
  std::size_t unit_bytes_ = 0;      // of the largest unit, in its own dtype
  std::int64_t unit_elements_ = 0;  // of the largest unit
  std::uint64_t clock_ = 0, brought_ = 0;
  bool has_copied_ = false;             // since the last begin_update()
  bool converts_after_copies_ = false;  // copies out of converted shares may be pending, and no update was since
  std::uint64_t failures_ = 0;          // reported_failures, when the last doubtful unit went
  std::uint64_t layout_ = 1;            // another number for each layout of the units
  std::uint64_t step_ = 0;              // the last captured step that has used the units
  bool are_gone_ = true;                // a captured step may begin: nothing was brought since begin_step()
  std::unique_ptr<Exchange> exchange_;  // null if this process has all parts
};

}  // namespace lockstep
