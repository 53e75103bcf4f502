#include "cuda/emulation/emulator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/text.h"
#include "cuda/emulation/fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace lockstep::emulation {
namespace {

// ThreadSanitizer identifies threads by their fibers, so each gets its own. Otherwise a fiber runs thread after thread,
// as long as none has to wait.
#ifdef __SANITIZE_THREAD__
constexpr bool kFiberForEachThread = true;
#else
constexpr bool kFiberForEachThread = false;
#endif
constexpr unsigned kWarp = 32;

enum class State { waits_for_turn, runs, at_barrier, at_shuffle, ended };

struct Thread {
  uint3 index = {};
  unsigned number = 0;  // within its block
  State state = State::waits_for_turn;
  Fiber* fiber = nullptr;
  std::source_location site;
  unsigned mask = 0, from = 0;
  std::uint64_t given = 0, taken = 0;

  unsigned lane() const { return number % kWarp; }
};

// Two places used alternately, for ThreadSanitizer: a thread that leaves a meeting late must not be ordered after what
// others have done since.
class MeetingPlace {
 public:
  void* now() { return &turns_[turn_]; }
  void next() { turn_ = 1 - turn_; }

 private:
  char turns_[2] = {};
  int turn_ = 0;
};

struct Warp {
  MeetingPlace shuffle;
  unsigned at_shuffle = 0, ended = 0;  // lanes that the block does not have count as ended
};

std::string where(const std::source_location& site) { return text(site.file_name(), ":", site.line()); }
// Within one source, the file name is mostly the same literal.
bool is_same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}
bool is_same(const std::source_location& a, const Site& b) { return a.line() == b.line && a.file_name() == b.file; }

class Block {
 public:
  /// Runs one block to its end, or throws.
  void run(const std::function<void()>& kernel, std::minstd_rand& random);
  unsigned lane() const { return current_->lane(); }
  std::uint64_t number() const { return number_; }

  void synchronize(std::source_location site);
  std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned lane, std::source_location site);
  /// The main function of every fiber: runs threads, one after the other.
  void take_turns();

 private:
  void prepare();
  Thread* choose();
  Fiber* next_fiber();
  void make_current(Thread& thread);
  bool run_current();
  void leave(const Thread& thread);
  void wake(Thread& thread);
  void open_barrier();
  void* arrive(Thread& self, unsigned mask, std::uint64_t value, unsigned lane, std::source_location site);
  void open_shuffle(const Thread& last);
  [[noreturn]] void report_deadlock() const;

  std::uint64_t number_ = 0;
  const std::function<void()>* kernel_ = nullptr;
  std::minstd_rand* random_ = nullptr;
  Order order_ = Order::forward;
  std::vector<Thread> threads_;
  std::vector<Thread*> turns_;  // threads that have not begun, the next one last
  std::deque<Thread*> woken_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Thread* current_ = nullptr;
  std::size_t at_barrier_ = 0, ended_ = 0;
  std::exception_ptr error_;
  MeetingPlace barrier_;
  std::vector<Warp> warps_;
  char begin_ = 0, end_ = 0;
};

Block block;

void Block::prepare() {
  const dim3 size = blockDim;
  threads_.assign(std::size_t(size.x) * size.y * size.z, {});
  turns_.clear();
  woken_.clear();
  Thread* thread = threads_.data();
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x, ++thread) {
        thread->number = unsigned(turns_.size());
        thread->index = {x, y, z};
        turns_.push_back(thread);
      }
  if (order_ == Order::forward) std::ranges::reverse(turns_);
  if (order_ == Order::shuffled) std::ranges::shuffle(turns_, *random_);
  idle_.clear();
  for (const auto& fiber : fibers_) idle_.push_back(fiber.get());
  warps_.assign((threads_.size() + kWarp - 1) / kWarp, {});
  warps_.back().ended = unsigned(warps_.size() * kWarp - threads_.size());
  at_barrier_ = ended_ = 0;
}

void Block::run(const std::function<void()>& kernel, std::minstd_rand& random) {
  const Unobserved scope;
  ++number_;
  kernel_ = &kernel;
  random_ = &random;
  order_ = settings().order;
  prepare();
  published(&begin_);
  try {
    while (ended_ < threads_.size()) {
      Fiber* const next = next_fiber();
      if (next == nullptr) report_deadlock();
      next->resume();
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }
  } catch (...) {
    observed(&end_);
    fibers_.clear();  // some fibers are in the middle of a kernel
    throw;
  }
  observed(&end_);
}

// Returns the thread to run next, or null if none can run.
Thread* Block::choose() {
  const bool begins = !turns_.empty() && (woken_.empty() || (order_ == Order::shuffled && (*random_)() % 2 == 0));
  if (begins) {
    Thread* const next = turns_.back();
    turns_.pop_back();
    return next;
  }
  if (woken_.empty()) return nullptr;
  if (order_ == Order::forward) {
    Thread* const next = woken_.front();
    woken_.pop_front();
    return next;
  }
  if (order_ == Order::shuffled) std::swap(woken_[(*random_)() % woken_.size()], woken_.back());
  Thread* const next = woken_.back();
  woken_.pop_back();
  return next;
}

void Block::make_current(Thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
}

// Makes the next thread current and returns its fiber; null if no thread can run.
Fiber* Block::next_fiber() {
  Thread* const next = choose();
  if (next == nullptr) return nullptr;
  make_current(*next);
  if (next->fiber == nullptr) {
    if (idle_.empty()) idle_.push_back(fibers_.emplace_back(std::make_unique<Fiber>([] { block.take_turns(); })).get());
    next->fiber = idle_.back();
    idle_.pop_back();
  }
  return next->fiber;
}

void Block::take_turns() {
  for (;;) {
    while (run_current()) {
    }
    leave(*current_);
  }
}

// Runs the current thread to its end. Returns true if its fiber has another thread to run at once.
bool Block::run_current() {
  const Unobserved scope;
  Thread& self = *current_;
  self.state = State::runs;
  observed(&begin_);
  try {
    const Observed kernel;
    (*kernel_)();
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
  self.state = State::ended;
  ++ended_;
  ++warps_[self.number / kWarp].ended;
  open_barrier();
  if (kFiberForEachThread) return false;
  Fiber* const fiber = self.fiber;
  if (error_ || order_ == Order::shuffled || !woken_.empty() || turns_.empty()) {
    idle_.push_back(fiber);
    return false;
  }
  make_current(*turns_.back());
  turns_.pop_back();
  current_->fiber = fiber;
  return true;
}

void Block::wake(Thread& thread) {
  thread.state = State::runs;
  woken_.push_back(&thread);
}

// leave() is called outside of Unobserved scopes, because the fiber may never be resumed.
void Block::synchronize(std::source_location site) {
  void* place = nullptr;
  {
    const Unobserved scope;
    Settings& set = settings();
    const auto is_here = [&](const Site& other) { return is_same(site, other); };
    if (at_barrier_ == 0 && std::ranges::none_of(set.barriers, is_here))  // the other threads wait at the same barrier
      set.barriers.push_back({site.line(), site.file_name()});
    if (is_here(set.without)) return;
    current_->state = State::at_barrier;
    current_->site = site;
    ++at_barrier_;
    place = barrier_.now();
    published(place);
    open_barrier();
  }
  leave(*current_);
  observed(place);
}

// Switches to the next thread, or to run() if none can run. Publishes first: the end of the grid comes after everything
// that this thread has done so far, whatever happens to the grid.
void Block::leave(const Thread& thread) {
  Fiber* const fiber = thread.fiber;
  Fiber* next = nullptr;
  published(&end_);
  {
    const Unobserved scope;
    if (!error_) next = next_fiber();
  }
  if (next == nullptr)
    fiber->suspend();
  else if (next != fiber)
    fiber->give_way_to(*next);
}

// Releases the barrier if all threads that have not ended have arrived.
void Block::open_barrier() {
  if (at_barrier_ == 0 || at_barrier_ + ended_ < threads_.size()) return;
  const std::source_location* first = nullptr;
  for (Thread& thread : threads_) {
    if (thread.state != State::at_barrier) continue;
    if (first == nullptr) first = &thread.site;
    if (!is_same(thread.site, *first) && !error_)
      error_ = std::make_exception_ptr(std::logic_error(
          text("[emulation] threads of a block wait at two barriers: ", where(*first), " and ", where(thread.site))));
    wake(thread);
  }
  at_barrier_ = 0;
  barrier_.next();
}

std::uint64_t Block::shuffle(unsigned mask, std::uint64_t value, unsigned lane, std::source_location site) {
  Thread& self = *current_;
  void* const place = arrive(self, mask, value, lane, site);
  leave(self);
  observed(place);
  return self.taken;
}

// Registers the lane's arrival at a shuffle; returns the meeting place.
void* Block::arrive(Thread& self, unsigned mask, std::uint64_t value, unsigned lane, std::source_location site) {
  const Unobserved scope;
  if ((mask >> self.lane() & 1) == 0)
    throw std::logic_error(text("[emulation] a thread's own mask does not name it: ", where(site)));
  self.state = State::at_shuffle;
  self.site = site;
  self.mask = mask;
  self.from = lane;
  self.given = value;
  Warp& warp = warps_[self.number / kWarp];
  ++warp.at_shuffle;
  void* const place = warp.shuffle.now();
  published(place);
  if (warp.at_shuffle + warp.ended >= unsigned(std::popcount(mask))) open_shuffle(self);
  return place;
}

// Releases the lanes of a mask if all of them have arrived.
void Block::open_shuffle(const Thread& last) {
  const unsigned first = last.number / kWarp * kWarp;
  std::array<Thread*, kWarp> met;
  unsigned count = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((last.mask >> lane & 1) == 0) continue;
    if (first + lane >= threads_.size() || threads_[first + lane].state == State::ended)
      throw std::logic_error(text("[emulation] a mask names lane ", lane, ", which will not come: ", where(last.site)));
    Thread& thread = threads_[first + lane];
    if (thread.state != State::at_shuffle || thread.mask != last.mask || !is_same(thread.site, last.site)) return;
    met[count++] = &thread;
  }
  Warp& warp = warps_[first / kWarp];
  warp.at_shuffle -= count;
  for (Thread* const thread : std::span(met).first(count)) {
    thread->taken = threads_[first + thread->from].given;
    wake(*thread);
  }
  warp.shuffle.next();
}

void Block::report_deadlock() const {
  std::string waiting;
  for (const Thread& thread : threads_)
    if (thread.state != State::ended && waiting.size() < 1000)
      waiting += text(" ", thread.number, thread.state == State::at_barrier ? " at the barrier " : " at the shuffle ",
                      where(thread.site), ";");
  throw std::logic_error("[emulation] threads wait for ever:" + waiting);
}

Order order_from_environment() {
  const char* const name = std::getenv("LOCKSTEP_EMULATION_ORDER");
  const std::string_view order = name ? name : "forward";
  if (order == "reverse") return Order::reverse;
  if (order == "shuffled") return Order::shuffled;
  if (order == "forward") return Order::forward;
  throw std::invalid_argument(text("LOCKSTEP_EMULATION_ORDER is forward, reverse or shuffled, not ", order));
}

}  // namespace

Settings& settings() {
  static Settings settings = [] {
    Settings initial;
    initial.order = order_from_environment();
    return initial;
  }();
  return settings;
}

unsigned this_lane() { return block.lane(); }
std::uint64_t this_block() { return block.number(); }
void synchronize_threads(std::source_location site) { block.synchronize(site); }
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned lane, std::source_location site) {
  return block.shuffle(mask, value, lane, site);
}

void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& kernel) {
  std::minstd_rand random(20'261'121);  // cheap to seed, unlike other engines: most grids are short
  std::vector<uint3> order;
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x) order.push_back({x, y, z});
  if (settings().order == Order::reverse) std::ranges::reverse(order);
  if (settings().order == Order::shuffled) std::ranges::shuffle(order, random);
  blockDim = threads;
  gridDim = blocks;
  for (const uint3& index : order) {
    blockIdx = index;
    block.run(kernel, random);
  }
}

}  // namespace lockstep::emulation
