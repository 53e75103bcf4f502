// print() and CapturePrint: formats, scopes, and several threads.
#include <lockstep/core/print.h>

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/core/shape.h>

#include "support/thrown.h"

namespace lockstep {
namespace {

std::string captured(auto&& job) {
  std::string text;
  const CapturePrint capture(text);
  job();
  return text;
}

TEST(PrintText, ReplacesEachPlaceByTheNextArgument) {
  EXPECT_EQ(captured([] { print("{} of {}: {}\n", 1, "two", Shape{3, 4}); }), "1 of two: [3, 4]\n");
  EXPECT_EQ(captured([] { print("plain { text }\n"); }), "plain { text }\n");
  EXPECT_EQ(captured([] { print("{} {}\n", true, false); }), "true false\n");
}

TEST(PrintText, WritesNumbersAndTextsInTheFormThatIsGiven) {
  EXPECT_EQ(captured([] { print("{:.4f}|{:8.3f}|{:>6}|{:05d}|{:x}\n", 1.0f / 3, 2.5, 7, 42, 255); }),
            "0.3333|   2.500|     7|00042|ff\n");
  EXPECT_EQ(captured([] { print("{:<6}|{:>6}|{}\n", "ab", Shape{2}, 0.5); }), "ab    |   [2]|0.5\n");
  EXPECT_EQ(captured([] { print("{:d}% {:e}\n", std::uint8_t(9), 1500.0); }), "9% 1.500000e+03\n");
}

TEST(PrintText, RefusesAFormThatDoesNotFit) {
  EXPECT_NE(testing::thrown<InvalidArgument>([] { print("{:.4f}\n", "text"); }).find("got {:.4f}"), std::string::npos);
  EXPECT_THROW(print("{:d}\n", 0.5), InvalidArgument);
}

TEST(PrintText, RefusesAnotherNumberOfArgumentsAndPrintsNothing) {
  std::string text;
  {
    const CapturePrint capture(text);
    EXPECT_EQ(testing::thrown<InvalidArgument>([] { print("{} and {}\n", 1); }),
              "[print] expected one argument for each {}, got 1 for 2");
    EXPECT_THROW(print("none\n", 1), InvalidArgument);
  }
  EXPECT_EQ(text, "");
}

TEST(CapturePrintScope, NestsAndEndsWithItsScope) {
  std::string inner;
  const std::string outer = captured([&] {
    print("a");
    {
      const CapturePrint capture(inner);
      print("b");
    }
    print("c");
  });
  EXPECT_EQ(outer, "ac");
  EXPECT_EQ(inner, "b");
}

TEST(CapturePrintScope, HoldsForItsThreadAlone) {
  std::string other;
  const std::string mine = captured([&] {
    std::thread([&] { other = captured([] { print("theirs"); }); }).join();
    print("mine");
  });
  EXPECT_EQ(mine, "mine");
  EXPECT_EQ(other, "theirs");
}

TEST(PrintText, NeverMixesLinesOfSeveralThreads) {
  ::testing::internal::CaptureStdout();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) print("{} says {} and {}\n", t, std::string(50, char('a' + t)), i);
    });
  for (std::thread& thread : threads) thread.join();
  std::fflush(stdout);
  std::istringstream lines(::testing::internal::GetCapturedStdout());
  std::map<int, int> next;
  for (std::string line; std::getline(lines, line);) {
    const int t = line.at(0) - '0';
    ASSERT_EQ(line,
              std::to_string(t) + " says " + std::string(50, char('a' + t)) + " and " + std::to_string(next[t]++));
  }
  for (int t = 0; t < 4; ++t) EXPECT_EQ(next[t], 500);
}

}  // namespace
}  // namespace lockstep
