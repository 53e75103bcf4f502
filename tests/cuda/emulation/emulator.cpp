#include "cuda/emulation/emulator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
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
#include "cuda/fake/fake_cuda.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace lockstep::emulation {
namespace {

// ThreadSanitizer knows threads by their fibers. Without it a fiber takes one thread after the other, if none has to
// wait.
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
  Site site;
  unsigned mask = 0, from = 0;
  std::uint64_t given = 0, taken = 0;

  unsigned lane() const { return number % kWarp; }
};

// Two, used in turn: whoever leaves a meeting late must not see what others have done since.
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
  unsigned at_shuffle = 0, ended = 0;  // lanes that the block does not have are as ended
};

std::string where(const Site& site) { return text(site.file, ":", site.line); }

class Block {
 public:
  /// Runs one block to its end, or throws.
  void run(const std::function<void()>& kernel, std::mt19937& random);
  unsigned lane() const { return current_->lane(); }

  void synchronize(Site site);
  std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned lane, Site site);
  /// What every fiber does: threads, one after the other.
  void take_turns();

 private:
  void prepare(std::mt19937& random);
  /// The thread that goes on, or null: none can.
  Thread* choose(std::mt19937& random);
  void give_turn(Thread& thread);
  void make_current(Thread& thread);
  bool run_current();
  void leave(const Thread& thread);
  void wake(Thread& thread);
  void open_barrier();
  void* arrive(Thread& self, unsigned mask, std::uint64_t value, unsigned lane, Site site);
  void open_shuffle(const Thread& last);
  [[noreturn]] void report_deadlock() const;

  const std::function<void()>* kernel_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Thread*> turns_;  // threads that have not begun, the next last
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

void Block::prepare(std::mt19937& random) {
  const dim3 size = blockDim;
  threads_.assign(std::size_t(size.x) * size.y * size.z, {});
  turns_.clear();
  woken_.clear();
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const auto number = unsigned(i);
    threads_[i].number = number;
    threads_[i].index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
    turns_.push_back(&threads_[i]);
  }
  if (settings().order == Order::forward) std::ranges::reverse(turns_);
  if (settings().order == Order::shuffled) std::ranges::shuffle(turns_, random);
  idle_.clear();
  for (const auto& fiber : fibers_) idle_.push_back(fiber.get());
  warps_.assign((threads_.size() + kWarp - 1) / kWarp, {});
  warps_.back().ended = unsigned(warps_.size() * kWarp - threads_.size());
  at_barrier_ = ended_ = 0;
}

void Block::run(const std::function<void()>& kernel, std::mt19937& random) {
  const Unobserved scope;
  prepare(random);
  kernel_ = &kernel;
  published(&begin_);
  try {
    while (ended_ < threads_.size()) {
      Thread* const next = choose(random);
      if (next == nullptr) report_deadlock();
      give_turn(*next);
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    }
  } catch (...) {
    observed(&end_);
    fibers_.clear();  // some are in the middle of a kernel
    throw;
  }
  observed(&end_);
}

Thread* Block::choose(std::mt19937& random) {
  const Order order = settings().order;
  const bool begins = !turns_.empty() && (woken_.empty() || (order == Order::shuffled && random() % 2 == 0));
  if (begins) {
    Thread* const next = turns_.back();
    turns_.pop_back();
    return next;
  }
  if (woken_.empty()) return nullptr;
  if (order == Order::forward) {
    Thread* const next = woken_.front();
    woken_.pop_front();
    return next;
  }
  if (order == Order::shuffled) std::swap(woken_[random() % woken_.size()], woken_.back());
  Thread* const next = woken_.back();
  woken_.pop_back();
  return next;
}

void Block::make_current(Thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
}

void Block::give_turn(Thread& thread) {
  make_current(thread);
  if (thread.fiber == nullptr) {
    if (idle_.empty()) idle_.push_back(fibers_.emplace_back(std::make_unique<Fiber>([] { block.take_turns(); })).get());
    thread.fiber = idle_.back();
    idle_.pop_back();
  }
  thread.fiber->resume();
}

void Block::take_turns() {
  for (;;) {
    while (run_current()) {
    }
    leave(*current_);
  }
}

// Whether the fiber has another thread to run at once.
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
  if (error_ || settings().order == Order::shuffled || !woken_.empty() || turns_.empty()) {
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

// A fiber is left outside of Unobserved scopes: it may be the last that is heard of it.
void Block::synchronize(Site site) {
  void* place = nullptr;
  {
    const Unobserved scope;
    auto& seen = settings().barriers;  // by the first thread that waits: the others wait at the same
    if (at_barrier_ == 0 && std::ranges::find(seen, site) == seen.end()) seen.push_back(site);
    if (site == settings().without) return;
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

// Whatever becomes of the grid, its end is after what the thread has done so far.
void Block::leave(const Thread& thread) {
  Fiber& fiber = *thread.fiber;
  published(&end_);
  fiber.suspend();
}

// Lets the threads go if all that have not ended are there.
void Block::open_barrier() {
  if (at_barrier_ == 0 || at_barrier_ + ended_ < threads_.size()) return;
  const Site* first = nullptr;
  for (Thread& thread : threads_) {
    if (thread.state != State::at_barrier) continue;
    if (first == nullptr) first = &thread.site;
    if (thread.site != *first && !error_)
      error_ = std::make_exception_ptr(std::logic_error(
          text("[emulation] threads of a block wait at two barriers: ", where(*first), " and ", where(thread.site))));
    wake(thread);
  }
  at_barrier_ = 0;
  barrier_.next();
}

std::uint64_t Block::shuffle(unsigned mask, std::uint64_t value, unsigned lane, Site site) {
  Thread& self = *current_;
  void* const place = arrive(self, mask, value, lane, site);
  leave(self);
  observed(place);
  return self.taken;
}

// Returns where the lanes meet.
void* Block::arrive(Thread& self, unsigned mask, std::uint64_t value, unsigned lane, Site site) {
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

// Lets the lanes of a mask go if all of them are there.
void Block::open_shuffle(const Thread& last) {
  const unsigned first = last.number / kWarp * kWarp;
  std::array<Thread*, kWarp> met;
  unsigned count = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((last.mask >> lane & 1) == 0) continue;
    if (first + lane >= threads_.size() || threads_[first + lane].state == State::ended)
      throw std::logic_error(text("[emulation] a mask names lane ", lane, ", which will not come: ", where(last.site)));
    Thread& thread = threads_[first + lane];
    if (thread.state != State::at_shuffle || thread.mask != last.mask || thread.site != last.site) return;
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
void synchronize_threads(Site site) { block.synchronize(site); }
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned lane, Site site) {
  return block.shuffle(mask, value, lane, site);
}

void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& kernel) {
  std::mt19937 random(20'261'121);
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

cudaError_t enqueue_grid(const cudaLaunchConfig_t& config, std::function<void()> kernel) {
  const auto within = [](dim3 size, unsigned x, unsigned y, unsigned z) {
    return size.x > 0 && size.y > 0 && size.z > 0 && size.x <= x && size.y <= y && size.z <= z;
  };
  const dim3 blocks = config.gridDim, threads = config.blockDim;
  // CUDA C++ Programming Guide, technical specifications per compute capability.
  if (!within(blocks, (1u << 31) - 1, 65535, 65535) || !within(threads, 1024, 1024, 64) ||
      std::uint64_t(threads.x) * threads.y * threads.z > 1024 || config.dynamicSmemBytes > (227 << 10))
    return cudaErrorInvalidConfiguration;
  if (settings().record_only) {
    settings().launches.push_back({blocks, threads, config.dynamicSmemBytes});
    return cudaSuccess;
  }
  return fake::enqueue(config.stream, [blocks, threads, run = std::move(kernel)] { run_grid(blocks, threads, run); });
}

}  // namespace lockstep::emulation
