// kill -9 at random instants while a file is written repeatedly: it always holds the last complete version or the next.
#include <gtest/gtest.h>

#include <iostream>

#include <lockstep/io/safetensors.h>
#include <lockstep/tensor/creation.h>

#include "io/killed_child.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::KilledChild;
using testing::TemporaryFolder;

constexpr int kAllKills = 200, kKills = testing::repetitions(kAllKills);
constexpr const char* kFile = "a.safetensors";

// Many tensors, so that a write can be killed at many points; all hold the version's number.
StateDict version(std::int64_t number) {
  StateDict state;
  for (int i = 0; i < 20; ++i)
    state.add(std::to_string(i), full({1000 + number % 50}, double(number), {.dtype = kFloat64}));
  return state;
}

// Returns the version in a file; fails the test if the file mixes versions.
std::int64_t version_of(const std::filesystem::path& path) {
  const StateDict state = load(path);
  EXPECT_EQ(state.size(), 20u);
  const auto number = std::int64_t(state.at("0").to_vector<double>().at(0));
  for (const auto& [key, tensor] : state)
    EXPECT_EQ(tensor.to_vector<double>(), std::vector<double>(std::size_t(1000 + number % 50), double(number))) << key;
  EXPECT_EQ(load_metadata(path).at("version"), std::to_string(number));
  return number;
}

// Not a test: the child process's work.
TEST(KillChild, DISABLED_WritesVersionsForEver) {
  const std::filesystem::path path = std::filesystem::path(KilledChild::folder()) / kFile;
  std::int64_t number = std::filesystem::exists(path) ? version_of(path) : -1;
  while (true) {
    ++number;
    KilledChild::report(number);  // the file may or may not hold this version from now on
    save(version(number), path, {{"version", std::to_string(number)}});
  }
}

TEST(Kill, DuringSaveLeavesTheOldFileOrTheNewOne) {
  const TemporaryFolder folder;
  testing::KillClock clock(1);
  int in_temporary = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    KilledChild child("KillChild.DISABLED_WritesVersionsForEver", folder.path());
    std::int64_t begun = child.next();
    for (int i = clock.reports(); i > 0; --i) {
      begun = child.next();
      clock.saw_report();
    }
    clock.wait_some();
    begun = child.kill(begun);
    ASSERT_GE(begun, 1) << "the child ended by itself";
    const std::int64_t found = version_of(folder / kFile);
    ASSERT_TRUE(found == begun || found == begun - 1) << "begun " << begun << ", found " << found;
    in_temporary += folder.names().size() > 1;
    ASSERT_LE(folder.names().size(), 2u) << "leftovers pile up";
  }
  std::cout << kKills << " kills, " << in_temporary << " of them while a temporary was there\n";
  // About half of the kills hit a write. With a sanitizer there are fewer kills, and possibly none does.
  if (kKills == kAllKills) {
    EXPECT_GT(in_temporary, 0);
  }
  save(version(0), folder / kFile, {{"version", "0"}});
  EXPECT_EQ(folder.names().size(), 1u);
}

}  // namespace
}  // namespace lockstep
