// A moved-from object throws from every function; it can be assigned and destroyed.
#include <gtest/gtest.h>

#include <utility>

#include <lockstep/runtime/communicator.h>

#include "parallel/mlp_job.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::Mlp;
using testing::thrown;

std::string refusal(const std::string& type, const std::string& expected) {
  return "[" + type + "] expected " + expected + ", got one that was moved from";
}

// The message of any module.
std::string no_module(const std::string& type) {
  return refusal(type, "a module") + ": use the one that it was moved into";
}

TEST(MovedFrom, DataParallelSaysSo) {
  const SimulatedDevices devices({.count = 2});
  DataParallel<Mlp> model{Mlp()};
  DataParallel<Mlp> taken = std::move(model);
  const std::string expected = refusal("DataParallel", "a model");
  EXPECT_EQ(thrown<InvalidArgument>([&] { model(ones({4, 5})); }), no_module("DataParallel"));
  EXPECT_EQ(thrown<InvalidArgument>([&] { model.module(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { std::as_const(model).module(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { model.device(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { model.output_device(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { model.parameters(); }), no_module("DataParallel"));
  EXPECT_EQ(thrown<InvalidArgument>([&] { model.train(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { const auto guard = model.no_sync(); }), expected);
  EXPECT_TRUE(model.devices().empty());
  model = std::move(taken);
  EXPECT_EQ(model(ones({4, 5})).sizes(), (Shape{4, 2}));
  model = std::move(taken);  // `taken` is itself moved from
  EXPECT_EQ(thrown<InvalidArgument>([&] { model.module(); }), expected);
}

TEST(MovedFrom, DataLoaderSaysSo) {
  data::DataLoader loader(testing::RandomDataset(5, 10), {.batch_size = 4});
  data::DataLoader taken = std::move(loader);
  const std::string expected = refusal("DataLoader", "a loader");
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.begin(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(loader.size()); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.dataset(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(loader.state()); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.load_state({}); }), expected);
  auto it = taken.begin();
  auto other = std::move(it);
  EXPECT_EQ(thrown<InvalidArgument>([&] { *it; }), refusal("DataLoader", "an iterator"));
  EXPECT_EQ(thrown<InvalidArgument>([&] { ++it; }), refusal("DataLoader", "an iterator"));
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(it == taken.end()); }),
            refusal("DataLoader", "an iterator"));
  loader = std::move(taken);
  EXPECT_EQ(loader.size(), 3);
}

TEST(MovedFrom, AnyModuleSaysSo) {
  nn::AnyModule module = nn::Linear(2, 2);
  const nn::AnyModule taken = std::move(module);
  const std::string expected = refusal("AnyModule", "a module");
  EXPECT_EQ(thrown<InvalidArgument>([&] { module(ones({1, 2})); }), no_module("AnyModule"));
  EXPECT_EQ(thrown<InvalidArgument>([&] { module.as<nn::Linear>(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { module.parameters(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(module.is_training()); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { module.set_mode(true); }), expected);
  nn::AnyModule target = nn::Linear(2, 2);
  target = std::move(module);
  EXPECT_EQ(thrown<InvalidArgument>([&] { target(ones({1, 2})); }), no_module("AnyModule"));
}

TEST(MovedFrom, CommunicatorSaysSo) {
  const SimulatedDevices devices({.count = 2});
  Communicator communicator({"cuda:0", "cuda:1"});
  const Communicator taken = std::move(communicator);
  const std::string expected = refusal("Communicator", "a communicator");
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(communicator.size()); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { communicator.devices(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { communicator.barrier({}); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { communicator.all_reduce({}, 0, kFloat32); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(communicator.is_aborted()); }), expected);
  communicator.abort();  // nothing is pending
}

TEST(MovedFrom, EventSaysSo) {
  const SimulatedDevices devices({.count = 1});
  const Stream stream = current_stream("cuda:0");
  cuda::Event event = stream.record();
  const cuda::Event taken = std::move(event);
  const std::string expected = refusal("Event", "an event");
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(event.device()); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { static_cast<void>(event.query()); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { event.synchronize(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { stream.wait(event); }), expected);
}

}  // namespace
}  // namespace lockstep
