// A program with `using namespace lockstep` may define these names itself: the library does not put them in the way.
#include <lockstep/lockstep.h>

#include <gtest/gtest.h>

#include <string>

using namespace lockstep;

// In the global namespace, as in a small program.
struct Split {};
struct Parts {};
struct Path {};
struct Row {};
struct Access {};
struct Event {};
using Number = double;
using Metadata = std::string;

TEST(UserNames, MayBeThoseThatALibraryHasForItself) {
  [[maybe_unused]] const Split split;
  [[maybe_unused]] const Parts parts;
  [[maybe_unused]] const Path path;
  [[maybe_unused]] const Row row;
  [[maybe_unused]] const Access access;
  [[maybe_unused]] const Event event;
  const Number number = 2;
  const Metadata metadata = "text";
  EXPECT_EQ(tensor(number).item<double>(), 2);
  EXPECT_EQ(metadata.size(), 4u);
}
