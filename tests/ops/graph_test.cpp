// Captured graphs on the devices of tests: what they keep, the order of their work, and what cannot be captured.
#include "runtime/graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::thrown;

const Device kFirst = Device::cuda(0), kSecond = Device::cuda(1);

float number(const Tensor& x) { return x.item<float>(); }

TEST(Graph, DoesNothingUntilItIsLaunchedAndThenEachTime) {
  const TestDevices there(1);
  Tensor x = ones({}, kFirst);
  GraphCapture capture;
  x += 1;
  Graph graph = capture.end();
  EXPECT_EQ(number(x), 1);
  for (int i = 0; i < 3; ++i) graph.launch();
  EXPECT_EQ(number(x), 4);
  x += 10;  // eager work in between
  graph.launch();
  EXPECT_EQ(number(x), 15);
}

TEST(Graph, SpansDevicesAndStreams) {
  const TestDevices there(2);
  Tensor y = zeros({}, kSecond);  // before `other` is made: emulated cards run the last stream's work first
  Tensor x = ones({}, kFirst);
  const Stream other = Stream::from_pool(kSecond);
  GraphCapture capture;
  x += 1;
  y += x.to(kSecond);
  other.wait(current_stream(kSecond).record());
  {
    const StreamGuard guard(other);
    y *= 3;
  }
  current_stream(kSecond).wait(other.record());
  Graph graph = capture.end();
  graph.launch();  // y = (0 + 2) * 3
  y += 4;          // between the two launches of the graph
  graph.launch();  // y = (10 + 3) * 3
  EXPECT_EQ(number(y), 39);
}

TEST(Graph, IsWaitedForOnAllOfItsDevices) {
  const TestDevices there(2);
  Tensor x = ones({}, kFirst), y = zeros({}, kSecond);  // in this order: see above
  GraphCapture capture;
  x += 1;
  y.copy_(x);
  Graph graph = capture.end();
  graph.launch();
  y *= 5;
  EXPECT_EQ(number(y), 10);
}

TEST(Graph, JoinsStreamsThatNobodyWaitedFor) {
  const TestDevices there(1);
  Tensor x = ones({}, kFirst);
  const Stream other = Stream::from_pool(kFirst);
  GraphCapture capture;
  other.wait(current_stream(kFirst).record());
  {
    const StreamGuard guard(other);
    x += 1;
  }
  Graph graph = capture.end();
  graph.launch();
  x *= 2;  // on the current stream
  EXPECT_EQ(number(x), 4);
}

TEST(Graph, RefusesToBeAskedWhileItIsCaptured) {
  const TestDevices there(1);
  Tensor x = ones({}, kFirst);
  const Stream stream = current_stream(kFirst);
  std::optional<cuda::Event> captured;
  {
    const Tensor pinned = ones({}).pin_memory();
    GraphCapture capture;
    x += 1;
    captured.emplace(stream.record());
    for (const auto& [what, call] : std::initializer_list<std::pair<const char*, std::function<void()>>>{
             {"a wait of the host", [&] { stream.synchronize(); }},
             {"a query whether work has ended", [&] { static_cast<void>(stream.query()); }},
             {"a query whether work has ended", [&] { static_cast<void>(captured->query()); }},
             {"a wait of the host", [&] { captured->synchronize(); }},
             {"a copy to the host", [&] { number(x); }},
             {"a copy from the host", [&] { x.copy_(ones({})); }},
             {"a copy from the host", [&] { x.copy_(pinned); }}}) {
      const std::string error = thrown<InvalidArgument>(call);
      EXPECT_NE(error.find(what), std::string::npos) << error;
    }
    const std::string error = thrown<InvalidArgument>([] { GraphCapture second; });
    EXPECT_NE(error.find("one capture at a time"), std::string::npos) << error;
  }
  EXPECT_EQ(number(x), 1);  // the captured work was dropped
}

TEST(Graph, RefusesToWaitForWorkThatIsNotCaptured) {
  if (!are_simulated()) GTEST_SKIP() << "the driver says so itself";
  const TestDevices there(1);
  const Stream other = Stream::from_pool(kFirst);
  Tensor x = ones({}, kFirst);
  const cuda::Event before = other.record();
  std::optional<cuda::Event> captured;
  {
    GraphCapture capture;
    const std::string error = thrown<InvalidArgument>([&] { current_stream(kFirst).wait(before); });
    EXPECT_NE(error.find("a wait for work that is not captured"), std::string::npos) << error;
    captured.emplace(current_stream(kFirst).record());
  }
  const std::string error = thrown<InvalidArgument>([&] { other.wait(*captured); });
  EXPECT_NE(error.find("a wait for captured work, which runs only when"), std::string::npos) << error;
}

TEST(Graph, NeedsAGpu) {
  if (!are_simulated()) GTEST_SKIP() << "there are cards";
  EXPECT_NE(thrown<InvalidArgument>([] { GraphCapture capture; }).find("expected a GPU, got none"), std::string::npos);
}

TEST(Graph, ShowsRacesOfCapturedWork) {
  if (!are_simulated()) GTEST_SKIP() << "only simulated devices check races";
  const TestDevices there(1);
  Tensor x = ones({}, kFirst);
  const Stream other = Stream::from_pool(kFirst);
  GraphCapture capture;
  other.wait(current_stream(kFirst).record());
  x += 1;
  {
    const StreamGuard guard(other);
    x *= 2;  // not ordered with the addition
  }
  Graph graph = capture.end();
  EXPECT_THROW(graph.launch(), RaceError);
}

}  // namespace
}  // namespace lockstep
