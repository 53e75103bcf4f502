// Sharded optimizer state: training gives the same result as with the whole state on every device.
#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/runtime/trace.h>

#include "optim/cases.h"
#include "parallel/sharded.h"
#include "support/test_devices.h"

namespace lockstep::sharded {
namespace {

using testing::OptimizerCase;

class ShardedState : public Devices {};

TEST_P(ShardedState, EqualsWholeStateBitForBitWithEveryOptimizer) {
  for (const OptimizerCase& which : testing::optimizer_cases()) {
    SCOPED_TRACE(which.name);
    manual_seed(3);
    const Net net;
    DataParallel whole(copy(net), options(false)), sharded(copy(net), options(true));
    const auto a = which.make(whole.parameters()), b = which.make(sharded.parameters());
    train(whole, *a, 0, 12);  // every batch with and without the branch
    train(sharded, *b, 0, 12);
    EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
    EXPECT_EQ(values(b->state_dict()), values(a->state_dict()));
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(ShardedState, EqualsWholeStateInOtherDTypes) {
  for (const DType dtype : {kFloat64, kFloat16, kBFloat16}) {
    SCOPED_TRACE(name(dtype));
    manual_seed(3);
    const Net net(dtype);
    DataParallel whole(copy(net), options(false)), sharded(copy(net), options(true));
    optim::AdamW a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
    train(whole, a, 0, 10);
    train(sharded, b, 0, 10);
    EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(ShardedState, WorksWithGroupsAndParametersOfNoReplicas) {
  manual_seed(3);
  const Net net;
  const auto run = [&](bool shard) {
    DataParallel model(copy(net), options(shard));
    nn::Linear& first = model.module().first;
    std::vector<Tensor> rest;
    for (const Tensor& parameter : model.parameters())
      if (!parameter.is_same(first.weight)) rest.push_back(parameter);
    Tensor on_cpu = ones({3}).requires_grad_(), on_gpu = ones({3}, {.device = "cuda:1"}).requires_grad_();
    rest.push_back(on_cpu);
    optim::Adam optimizer({{rest, {.lr = 0.02}}, {{first.weight, on_gpu}, {.lr = 0.01}}});
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      loss_of(model, step).backward();
      sum(on_cpu * on_cpu).backward();
      sum(on_gpu * on_gpu).backward();
      optimizer.step();
    }
    std::vector<Tensor> all = model.parameters();
    all.insert(all.end(), {on_cpu, on_gpu});
    return values(all);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_P(ShardedState, CheckpointsAreThoseOfWholeState) {
  for (const bool from_sharded : {false, true}) {
    manual_seed(3);
    const Net net;
    DataParallel trained(copy(net), options(from_sharded)), resumed(copy(net), options(!from_sharded));
    optim::Adam a(trained.parameters(), {.amsgrad = true}), b(resumed.parameters(), {.amsgrad = true});
    train(trained, a, 0, 5);
    train(resumed, b, 0, 2);
    const StateDict model = copy_of(trained.state_dict()), state = copy_of(a.state_dict());
    resumed.load_state_dict(model);
    b.load_state_dict(state);
    EXPECT_EQ(values(b.state_dict()), values(state));
    train(trained, a, 5, 12);
    train(resumed, b, 5, 12);
    EXPECT_EQ(values(resumed.parameters()), values(trained.parameters()));
    EXPECT_EQ(values(b.state_dict()), values(a.state_dict()));
  }
}

TEST_P(ShardedState, CheckpointsFitAnyNumberOfDevices) {
  manual_seed(3);
  const Net net;
  DataParallel model(copy(net), options(true));
  optim::AdamW optimizer(model.parameters(), {});
  train(model, optimizer, 0, 5);
  const StateDict state = optimizer.state_dict();
  for (int count = 1; count <= GetParam(); ++count) {
    std::vector<int> ids;
    for (int d = 0; d < count; ++d) ids.push_back(d);
    DataParallel other(copy(net), options(true, ids));
    optim::AdamW taker(other.parameters(), {});
    taker.load_state_dict(state);
    train(other, taker, 0, 0);
    EXPECT_EQ(values(taker.state_dict()), values(state)) << count;
    train(other, taker, 0, 2);
  }
}

TEST_P(ShardedState, ComesTogetherWhenTheReplicasGo) {
  manual_seed(3);
  const Net net;
  std::vector<std::vector<std::vector<double>>> results;
  for (const bool shard : {false, true}) {
    std::optional<DataParallel<Net>> model(std::in_place, copy(net), options(shard));
    Net alone = net;
    optim::Adam optimizer(model->parameters(), {});
    train(*model, optimizer, 0, 3);
    optimizer.zero_grad();
    loss_of(*model, 3).backward();
    const std::vector<Tensor> parameters = model->parameters();
    model.reset();
    optimizer.step();
    results.push_back(values(parameters));
    results.push_back(values(optimizer.state_dict()));
  }
  EXPECT_EQ(results[2], results[0]);
  EXPECT_EQ(results[3], results[1]);
}

TEST_P(ShardedState, RefusesAParameterThatLeftItsDevice) {
  DataParallel model(Net(), options(true));
  optim::Adam optimizer(model.parameters(), {});
  train(model, optimizer, 0, 2);
  const auto before = values(model.parameters());
  model.module().to("cpu");
  EXPECT_THROW(optimizer.step(), InvalidArgument);
  EXPECT_EQ(values(model.parameters()), before);
}

struct Wide : nn::Module<Wide> {
  nn::Linear layer{255, 301};
  auto members() { return nn::members("layer", layer); }
  Tensor forward(const Tensor& x) { return layer(x); }
};

TEST_P(ShardedState, TakesItsPartOfTheMemory) {
  const auto state_bytes = [&](bool shard) {
    DataParallel model(Wide(), {.shard = shard ? Shard::optimizer_state : Shard::none});
    optim::Adam optimizer(model.parameters(), {});
    sum(model(randn({8, 255}, {.device = "cuda:0"}))).backward();
    for (const Device& device : model.devices()) synchronize(device);
    const std::vector<std::size_t> before = testing::memory_in_use(GetParam());
    optimizer.step();
    for (const Device& device : model.devices()) synchronize(device);
    std::vector<std::size_t> bytes = testing::memory_in_use(GetParam());
    for (std::size_t d = 0; d < bytes.size(); ++d) bytes[d] -= before[d];
    return bytes;
  };
  const std::size_t all = 2 * (255 * 301 + 301) * sizeof(float), rounding = 2 * 512;
  for (const std::size_t bytes : state_bytes(false)) EXPECT_GE(bytes, all);
  for (const std::size_t bytes : state_bytes(true)) EXPECT_LE(bytes, all / std::size_t(GetParam()) + rounding);
}

// Two layers whose gradients arrive in an order other than the reverse of members(), and one that trains only at first.
struct Deep : nn::Module<Deep> {
  nn::Linear first{150, 200}, last{200, 100}, early{100, 50};
  auto members() { return nn::members("last", last, "early", early, "first", first); }
  Tensor forward(const Tensor& x, bool whole) {
    const Tensor h = last(first(x));
    return whole ? sum(early(h)) + sum(h) : sum(h);
  }
};

TEST_P(ShardedState, TakesItsPartOfTheMemoryWhereverItMoves) {
  const std::size_t elements = 151 * 200 + 201 * 100 + 101 * 50, rounding = 16 * 512;
  DataParallel model(Deep(), {.buckets = {.first_bytes = 1000, .bytes = 100000}, .shard = Shard::optimizer_state});
  optim::Adam optimizer(model.parameters(), {});
  const Tensor input = randn({8, 150}, {.device = "cuda:0"});
  for (const Device& device : model.devices()) synchronize(device);
  const std::vector<std::size_t> before = testing::memory_in_use(GetParam());
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    sum(model(input, step == 0)).backward();
    optimizer.step();
    for (const Device& device : model.devices()) synchronize(device);
    const std::vector<std::size_t> now = testing::memory_in_use(GetParam());
    for (std::size_t d = 0; d < now.size(); ++d)
      EXPECT_LE(now[d] - before[d], 2 * elements * sizeof(float) / now.size() + rounding)
          << "after step " << step << " on cuda:" << d;
  }
}

// Trains four steps; the second one moves state, and gets the fault if there is one.
std::vector<std::vector<double>> trained(SimulatedDevices& devices, std::optional<Fault> fault) {
  manual_seed(3);
  DataParallel model(Deep(), {.buckets = {.first_bytes = 1000, .bytes = 100000}, .shard = Shard::optimizer_state});
  optim::Adam optimizer(model.parameters(), {});
  const Tensor input = randn({8, 150}, {.device = "cuda:0"});
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    sum(model(input, step % 2 == 0)).backward();
    if (step == 1 && fault) devices.fault().fail_allocation(*fault);
    try {
      optimizer.step();
    } catch (const OutOfMemory&) {
      EXPECT_GT(fault->count, 1u);
      optimizer.step();
    }
    devices.fault().clear();
  }
  return values(model.parameters());
}

TEST_P(ShardedState, MovesByWayOfTheHostWhereThereIsNoRoom) {
  const auto right = trained(devices_, {});
  for (int d = 0; d < GetParam(); ++d)
    for (std::uint64_t nth = 1; nth <= 2; ++nth)  // one array per state slot
      for (std::uint64_t count = 1; count <= 2; ++count)
        EXPECT_EQ(trained(devices_, Fault{.device = d, .nth = nth, .count = count}), right)
            << count << " from allocation " << nth << " on cuda:" << d;
}

TEST_P(ShardedState, NeitherAllocatesNorCopiesNorWaitsInTheSteadyState) {
  DataParallel model(Net(), options(true));
  optim::Adam optimizer(model.parameters(), {});
  const Tensor input = randn({10, 5}, {.device = "cuda:0"});
  const auto step = [&] {
    optimizer.zero_grad();
    sum(model(input, true)).backward();
    optim::clip_grad_value_(model.parameters(), 1);
    optimizer.step();
  };
  const auto counted = [&] {
    std::uint64_t copies = 0, host_waits = 0, allocations = 0;
    for (int d = 0; d < GetParam(); ++d) {
      copies += devices_.counts(d).peer_copies;
      host_waits += devices_.counts(d).host_waits;
      allocations += memory_stats(Device::cuda(d)).backend_allocations;
    }
    return std::tuple(copies, host_waits, allocations);
  };
  for (int i = 0; i < 5; ++i) step();
  for (const Device& device : model.devices()) synchronize(device);
  const auto before = counted();
  for (int i = 0; i < 10; ++i) step();
  const auto after = counted();
  const auto sent = 10u * 3u * std::uint64_t(GetParam() - 1);  // shards, outputs and their gradients, but no parameters
  EXPECT_EQ(std::get<0>(after) - std::get<0>(before), sent);
  EXPECT_EQ(std::get<1>(after), std::get<1>(before)) << "waits of the host";
  EXPECT_EQ(std::get<2>(after), std::get<2>(before)) << "allocations";
}

TEST_P(ShardedState, ReduceScattersAndAllGathersEachBucketOnce) {
  DataParallel model(Net(), options(true));
  optim::Adam optimizer(model.parameters(), {});
  train(model, optimizer, 0, 3);
  optimizer.zero_grad();
  const Tensor loss = loss_of(model, 4);
  for (const Device& device : model.devices()) synchronize(device);
  const Trace trace;
  loss.backward();
  optimizer.step();
  for (const Device& device : model.devices()) synchronize(device);
  std::vector<std::string> collectives;
  for (const TraceEvent& event : trace.events())
    for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather", "send_receive"})
      if (event.name == kind && event.device == model.device()) collectives.push_back(event.name);
  ASSERT_GT(collectives.size(), 2u);
  for (const char* kind : {"reduce_scatter", "all_gather"})
    EXPECT_EQ(std::ranges::count(collectives, kind), std::ptrdiff_t(collectives.size() / 2)) << kind;
}

INSTANTIATE_TEST_SUITE_P(Devices, ShardedState, ::testing::Values(2, 3, 5));

TEST(ShardedStateAlone, IsWholeOnOneDevice) {
  const TestDevices devices(1);
  manual_seed(3);
  const Net net;
  DataParallel whole(copy(net), options(false)), sharded(copy(net), options(true));
  optim::Adam a(whole.parameters(), {}), b(sharded.parameters(), {});
  train(whole, a, 0, 5);
  train(sharded, b, 0, 5);
  EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
}

}  // namespace
}  // namespace lockstep::sharded
