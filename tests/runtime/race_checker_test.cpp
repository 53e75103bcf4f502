// The race checker's parts against oracles: regions against sets of bytes, the pruned history against a complete one.
#include "backends/sim/race_checker.h"

#include <gtest/gtest.h>
#include <lockstep/core/error.h>

#include <random>
#include <set>

namespace lockstep::sim {
namespace {

alignas(64) std::byte arena[256];

std::set<std::size_t> bytes_of(const Region& region) {
  std::set<std::size_t> bytes;
  const std::size_t begin = begin_of(region) - reinterpret_cast<std::uintptr_t>(arena);
  for (std::size_t row = 0; row < region.rows; ++row)
    for (std::size_t i = 0; i < region.row_bytes; ++i) bytes.insert(begin + row * region.pitch + i);
  return bytes;
}

bool share_a_byte(const Region& a, const Region& b) {
  const std::set<std::size_t> others = bytes_of(b);
  for (const std::size_t byte : bytes_of(a))
    if (others.contains(byte)) return true;
  return false;
}

class RandomRegions {
 public:
  explicit RandomRegions(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return random_() % bound; }
  Region next() {
    const std::size_t pitches[] = {4, 8, 12};
    return {arena + below(40), 1 + below(10), 1 + below(4), pitches[below(3)]};
  }

 private:
  std::mt19937 random_;
};

TEST(Region, OverlapIsExact) {
  RandomRegions random(1);
  for (int i = 0; i < 20000; ++i) {
    const Region a = random.next(), b = random.next();
    ASSERT_EQ(overlaps(normalized(a), normalized(b)), share_a_byte(a, b))
        << begin_of(a) - begin_of(b) << ' ' << a.row_bytes << 'x' << a.rows << '/' << a.pitch << ' ' << b.row_bytes
        << 'x' << b.rows << '/' << b.pitch;
  }
}

TEST(Region, WhatCoversHasEveryByte) {
  RandomRegions random(2);
  int covered = 0;
  for (int i = 0; i < 20000; ++i) {
    const Region a = random.next(), b = random.next();
    if (!covers(normalized(a), normalized(b))) continue;
    ++covered;
    const std::set<std::size_t> outer = bytes_of(a);
    for (const std::size_t byte : bytes_of(b)) ASSERT_TRUE(outer.contains(byte));
  }
  EXPECT_GT(covered, 500);
}

// Vector clocks in the simplest form, with a history that drops nothing.
class Oracle {
 public:
  explicit Oracle(std::size_t streams) : clocks_(streams, Clock(streams)), host_(streams) {}

  bool races(std::size_t stream, const MemoryAccess& access) {
    join(clocks_[stream], host_);
    for (const auto& [past, at, epoch] : history_) {
      const bool conflict = past.kind == AccessKind::write || access.kind == AccessKind::write;
      if (conflict && clocks_[stream][at] < epoch && share_a_byte(past.region, access.region)) return true;
    }
    history_.push_back({access, stream, ++clocks_[stream][stream]});
    return false;
  }
  void order(std::size_t before, std::size_t after) { join(clocks_[after], clocks_[before]); }
  void synchronize(std::size_t stream) { join(host_, clocks_[stream]); }

 private:
  struct Entry {
    MemoryAccess access;
    std::size_t stream;
    std::uint64_t epoch;
  };
  static void join(Clock& into, const Clock& other) {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
  }
  std::vector<Clock> clocks_;
  Clock host_;
  std::vector<Entry> history_;
};

TEST(RaceChecker, FindsExactlyTheRacesOfAnUnprunedHistory) {
  constexpr std::size_t kStreams = 4;
  int races = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomRegions random(seed);
    RaceChecker checker;
    Oracle oracle(kStreams);
    for (std::size_t i = 0; i < kStreams; ++i) checker.add_stream("stream");
    for (int step = 0; step < 150; ++step) {
      const std::size_t stream = random.below(kStreams), other = random.below(kStreams);
      const std::size_t choice = random.below(20);
      if (choice < 8) {
        checker.wait(int(stream), checker.now(int(other)));
        oracle.order(other, stream);
      } else if (choice == 8) {
        checker.host_synchronized(checker.now(int(stream)));
        oracle.synchronize(stream);
      } else {
        const MemoryAccess access = {random.next(), random.below(3) == 0 ? AccessKind::write : AccessKind::read};
        const bool expected = oracle.races(stream, access);
        bool found = false;
        try {
          checker.access(int(stream), "op", {&access, 1});
        } catch (const RaceError&) {
          found = true;
        }
        ASSERT_EQ(found, expected) << "seed " << seed << " step " << step;
        races += found;
      }
    }
  }
  EXPECT_GT(races, 300);
}

TEST(RaceChecker, RemembersEachColumnOnce) {
  constexpr std::size_t kColumns = 64;
  RaceChecker checker;
  const int writer = checker.add_stream("writer"), reader = checker.add_stream("reader");
  const MemoryAccess matrix = {{arena, sizeof arena, 1, 0}, AccessKind::write};
  checker.access(writer, "fill", {&matrix, 1});
  checker.wait(reader, checker.now(writer));
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t column = 0; column < kColumns; ++column) {
      const MemoryAccess read = {{arena + column, 1, sizeof arena / kColumns, kColumns}, AccessKind::read};
      checker.access(reader, "read", {&read, 1});
    }
  EXPECT_EQ(checker.history_size(), 1 + kColumns);

  EXPECT_THROW(checker.access(writer, "fill", {&matrix, 1}), RaceError);
  checker.wait(writer, checker.now(reader));
  checker.access(writer, "fill", {&matrix, 1});
  EXPECT_EQ(checker.history_size(), 1u);
}

TEST(RaceChecker, ForgetsWhatLayInFreedMemoryAlone) {
  RaceChecker checker;
  const int stream = checker.add_stream("stream"), other = checker.add_stream("other");
  const MemoryAccess columns[] = {{{arena, 1, 8, 4}, AccessKind::read}, {{arena + 64, 1, 8, 4}, AccessKind::read}};
  checker.access(stream, "read", columns);
  RaceChecker::Unfinished unfinished;
  EXPECT_TRUE(checker.forget("free", {arena, 64, 1, 0}, unfinished));
  EXPECT_EQ(unfinished.stream, stream);
  EXPECT_EQ(checker.history_size(), 1u);
  const MemoryAccess freed = {{arena, 64, 1, 0}, AccessKind::write}, kept = {{arena + 64, 64, 1, 0}, AccessKind::write};
  EXPECT_NO_THROW(checker.access(other, "write", {&freed, 1}));
  EXPECT_THROW(checker.access(other, "write", {&kept, 1}), RaceError);
}

}  // namespace
}  // namespace lockstep::sim
