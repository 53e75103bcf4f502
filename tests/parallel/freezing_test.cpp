// Parameters that are frozen and thawed between passes, as adversaries do with each other: results equal one device's,
// and no replicas are made again.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "parallel/blocking_model.h"
#include "parallel/layouts.h"
#include "support/values.h"

namespace lockstep::freezing {
namespace {

using testing::for_each_process;
using testing::kLayouts;
using testing::Layout;
using testing::text_of;
using testing::values;
using Doubles = std::vector<double>;

const TensorOptions kWide = {.dtype = kFloat64};

void expect_near(const Doubles& got, const Doubles& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-10) << what << ", element " << i;
}

void expect_same_parameters(nn::ModuleBase& got, nn::ModuleBase& expected, const std::string& what) {
  const auto a = got.parameters(), b = expected.parameters();
  for (std::size_t i = 0; i < b.size(); ++i)
    expect_near(values(a[i]), values(b[i]), what + ", parameter " + std::to_string(i));
}

void expect_same_gradients(nn::ModuleBase& got, nn::ModuleBase& expected, const std::string& what) {
  const auto a = got.parameters(), b = expected.parameters();
  for (std::size_t i = 0; i < b.size(); ++i) {
    const std::string which = what + ", gradient " + std::to_string(i);
    ASSERT_EQ(a[i].grad().defined(), b[i].grad().defined()) << which;
    if (b[i].grad().defined()) expect_near(values(a[i].grad()), values(b[i].grad()), which);
  }
}

// The addresses of the modules whose forward ran: new replicas would have other addresses.
struct Places {
  std::mutex mutex;
  std::map<std::string, std::set<const void*>> of_device;
  void add(const Device& device, const void* module) {
    const std::scoped_lock lock(mutex);
    of_device[text(device)].insert(module);
  }
  static std::string text(const Device& device) { return device.is_cpu() ? "cpu" : std::to_string(device.index()); }
};

struct Mlp : nn::Module<Mlp> {
  nn::Linear a, b;
  std::shared_ptr<Places> places = std::make_shared<Places>();
  Mlp(std::int64_t in, std::int64_t out) : a(in, 6, {.tensor = kWide}), b(6, out, {.tensor = kWide}) {}
  auto members() { return nn::members("a", a, "b", b); }
  Tensor forward(const Tensor& x) {
    places->add(x.device(), this);
    return b(tanh(a(x)));
  }
};

void freeze(nn::ModuleBase& module, bool frozen = true) {
  for (Tensor& p : module.parameters()) p.requires_grad_(!frozen);
}

// Two adversaries; each is frozen while the other trains (the generator only in every other step).
template <class G, class D>
struct Adversaries {
  G& generator;
  D& critic;
  optim::Adam for_generator, for_critic;
  Adversaries(G& g, D& d)
      : generator(g),
        critic(d),
        for_generator(g.parameters(), {.lr = 0.02}),
        for_critic(d.parameters(), {.lr = 0.03}) {}

  // `part` selects the rows of this process.
  template <class Part>
  void step(int number, const Tensor& noise, const Tensor& real, const Part& part) {
    const double rows = double(noise.size(0));
    freeze(critic);
    freeze(generator, false);
    for_generator.zero_grad();
    (sum(pow(critic(generator(part(noise))) - 1, 2)) / rows).backward();
    for_generator.step();

    freeze(critic, false);
    if (number % 2) freeze(generator);
    for_critic.zero_grad();
    const Tensor fake = generator(part(noise)).detach();
    (sum(pow(critic(part(real)) - 1, 2)) / rows).backward();
    (sum(pow(critic(fake), 2)) / rows).backward();
    optim::clip_grad_norm_(critic.parameters(), 1);
    for_critic.step();
  }
};

struct Way {
  bool sharded = false;
  std::size_t bucket_bytes = 200;
  bool critic_begins_frozen = false, generator_begins_frozen = false;
};

TEST(Freezing, AdversariesAreTrainedAsOnOneDevice) {
  for (const Layout& layout : kLayouts)
    for (const Way& way : {Way{}, Way{.sharded = true}, Way{.bucket_bytes = 1 << 20}, Way{.critic_begins_frozen = true},
                           Way{.critic_begins_frozen = true, .generator_begins_frozen = true},
                           Way{.sharded = true, .critic_begins_frozen = true}})
      for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
        Mlp g(3, 4), d(4, 1);
        const DataParallelOptions options = {.device_ids = ids,
                                             .buckets = {.first_bytes = way.bucket_bytes, .bytes = way.bucket_bytes},
                                             .shard = way.sharded ? Shard::optimizer_state : Shard::none,
                                             .world = world,
                                             .loss = ProcessLoss::sum};
        Mlp first_g = copy(g), first_d = copy(d);
        freeze(first_g, way.generator_begins_frozen);
        freeze(first_d, way.critic_begins_frozen);
        DataParallel generator(std::move(first_g), options), critic(std::move(first_d), options);
        g.load_state_dict(generator.module().state_dict());
        d.load_state_dict(critic.module().state_dict());
        Adversaries one(g, d);
        Adversaries many(generator, critic);
        for (int step = 0; step < 6; ++step) {
          const std::int64_t rows = step == 3 ? 7 : 12;
          const Tensor noise = randn({rows, 3}, kWide), real = randn({rows, 4}, kWide);
          one.step(step, noise, real, [](const Tensor& x) { return x; });
          many.step(step, noise, real, [&](const Tensor& x) {
            const auto [first, count] = generator.share().rows(rows);
            return x.narrow(0, first, count).to(generator.device());
          });
          const std::string what = text_of(layout) + ", step " + std::to_string(step) +
                                   (way.sharded ? ", sharded" : "") + (way.critic_begins_frozen ? ", frozen" : "");
          expect_same_parameters(generator, g, what);
          expect_same_parameters(critic, d, what);
        }
        for (const Mlp* module : {&generator.module(), &critic.module()})
          for (const auto& [device, modules] : module->places->of_device)
            EXPECT_EQ(modules.size(), 1u) << text_of(layout) << ", device " << device;
      });
}

// A thawed parameter has the primary's value in every replica.
TEST(Freezing, ReplicasHaveTheValuesOfThePrimary) {
  for (const Layout& layout : kLayouts)
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(Mlp(2, 1), {.device_ids = ids, .world = world, .loss = ProcessLoss::sum});
      Mlp alone(2, 1);
      optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
      const Tensor one_row = randn({1, 2}, kWide), x = one_row.expand({layout.devices, 2}).contiguous();
      for (int step = 0; step < 8; ++step) {
        Mlp& module = model.module();
        module.a.weight.requires_grad_(step % 2 == 0);
        module.b.bias->requires_grad_(step % 3 != 1);
        {
          const NoGrad guard;
          if (step == 5) module.a.weight.mul_(2);  // by hand, while it is frozen
          if (step == 6) module.a.bias->fill_(1);
        }
        alone.load_state_dict(module.state_dict());
        const Doubles expected(std::size_t(layout.devices), values(alone(one_row))[0]);
        const Tensor y = model(x);
        expect_near(values(y), expected, text_of(layout) + ", step " + std::to_string(step));
        optimizer.zero_grad();
        sum(y).backward();
        optimizer.step();
      }
    });
}

// As in PyTorch: a parameter that is frozen when backward reaches it gets no gradient, and keeps an earlier one.
TEST(Freezing, BetweenForwardAndBackwardDropsTheGradient) {
  for (const Layout& layout : kLayouts)
    for (const bool sharded : {false, true})
      for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
        Mlp alone(2, 1);
        DataParallel model(copy(alone), {.device_ids = ids,
                                         .buckets = {.first_bytes = 1, .bytes = 1},
                                         .shard = sharded ? Shard::optimizer_state : Shard::none,
                                         .world = world,
                                         .loss = ProcessLoss::sum});
        alone.load_state_dict(model.module().state_dict());
        const std::int64_t rows = 2 * layout.processes * layout.devices;
        const data::RowRange own = model.share().rows(rows);
        const auto run = [&](const auto& change) {
          const Tensor x = randn({rows, 2}, kWide);
          const Tensor expected = sum(alone(x)), got = sum(model(x.narrow(0, own.first, own.count)));
          change(alone);
          change(model.module());
          expected.backward();
          got.backward();
          expect_same_gradients(model.module(), alone, text_of(layout));
        };
        run([](Mlp& module) { module.a.weight.requires_grad_(false); });
        EXPECT_FALSE(model.module().a.weight.grad().defined());
        run([](Mlp& module) { module.a.weight.requires_grad_(true); });
        run([](Mlp&) {});
        EXPECT_TRUE(model.module().a.weight.grad().defined());
        run([](Mlp& module) { freeze(module.a); });
        run([](Mlp& module) { freeze(module.a, false); });
        run([](Mlp&) {});
      });
}

// Gradients that were not summed when a parameter was frozen are summed on demand.
TEST(Freezing, KeepsWhatNoSyncHasLeft) {
  for (const Layout& layout : kLayouts)
    for (const bool sharded : {false, true})
      for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
        Mlp alone(2, 1);
        DataParallel model(copy(alone), {.device_ids = ids,
                                         .buckets = {.first_bytes = 1, .bytes = 1},
                                         .shard = sharded ? Shard::optimizer_state : Shard::none,
                                         .world = world,
                                         .loss = ProcessLoss::sum});
        alone.load_state_dict(model.module().state_dict());
        const std::int64_t rows = 2 * layout.processes * layout.devices;
        const auto [first, count] = model.share().rows(rows);
        for (int round = 0; round < 3; ++round) {
          const Tensor x = randn({rows, 2}, kWide), part = x.narrow(0, first, count);
          {
            const auto guard = model.no_sync();
            sum(alone(x)).backward();
            sum(model(part)).backward();
          }
          freeze(alone.a);
          freeze(model.module().a);
          if (round != 1) {
            sum(alone(x)).backward();
            sum(model(part)).backward();
          }
          expect_same_gradients(model.module(), alone, text_of(layout) + ", round " + std::to_string(round));
          freeze(alone.a, false);
          freeze(model.module().a, false);
        }
      });
}

struct Branching : nn::Module<Branching> {
  nn::Linear sometimes{2, 2, {.tensor = kWide}}, always{2, 1, {.tensor = kWide}};
  auto members() { return nn::members("sometimes", sometimes, "always", always); }
  Tensor forward(const Tensor& x, bool branch) { return always(branch ? sometimes(x) : x); }
};

// The same if only one process has such gradients.
TEST(Freezing, KeepsWhatNoSyncHasLeftInOneProcess) {
  for (const Layout& layout : {Layout{2, 1}, Layout{2, 2}, Layout{3, 1}})
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(
          Branching(),
          {.device_ids = ids, .buckets = {.first_bytes = 1, .bytes = 1}, .world = world, .loss = ProcessLoss::sum});
      Branching alone;
      alone.load_state_dict(model.module().state_dict());
      const std::int64_t rows = 2 * layout.devices, all = rows * layout.processes;
      for (int round = 0; round < 2; ++round) {  // the second round runs on rebuilt buckets
        alone.zero_grad();
        model.zero_grad();
        freeze(alone.sometimes, false);
        freeze(model.module().sometimes, false);
        const Tensor x = randn({all, 2}, kWide), part = x.narrow(0, world.rank().value() * rows, rows);
        sum(alone(x.narrow(0, 0, rows), true)).backward();
        sum(alone(x.narrow(0, rows, all - rows), false)).backward();
        {
          const auto guard = model.no_sync();
          sum(model(part, world.is_first())).backward();
        }
        freeze(alone.sometimes);
        freeze(model.module().sometimes);
        sum(alone(x, false)).backward();
        sum(model(part, false)).backward();
        expect_same_gradients(model.module(), alone, text_of(layout));
      }
    });
}

// Thawing a parameter for the first time leaves earlier graphs valid.
TEST(Freezing, ThawingLeavesEarlierGraphsGood) {
  for (const Layout& layout : kLayouts)
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      Mlp alone(2, 1), wrapped = copy(alone);
      freeze(alone.a);
      freeze(wrapped.a);
      DataParallel model(std::move(wrapped), {.device_ids = ids, .world = world, .loss = ProcessLoss::sum});
      alone.load_state_dict(model.module().state_dict());
      const std::int64_t rows = 2 * layout.processes * layout.devices;
      const auto [first, count] = model.share().rows(rows);
      const Tensor x = randn({rows, 2}, kWide), part = x.narrow(0, first, count);
      const Tensor expected = sum(alone(x)), got = sum(model(part));
      freeze(alone.a, false);
      freeze(model.module().a, false);
      const Tensor also = sum(alone(x)), and_got = sum(model(part));
      (expected + also).backward();
      (got + and_got).backward();
      expect_same_gradients(model.module(), alone, text_of(layout));
    });
}

// A parameter that is frozen, trained, and frozen again is not copied.
TEST(Freezing, CopiesNothing) {
  SimulatedDevices devices({.count = 3});
  DataParallel model(Mlp(3, 4));
  optim::Adam optimizer(model.parameters(), {.lr = 0.1});
  const Tensor x = randn({6, 3}, {.dtype = kFloat64, .device = "cuda:0"});
  const auto copies_of_a_step = [&](bool frozen) {
    const std::uint64_t before = devices.counts(0).copies + devices.counts(1).copies;
    freeze(model.module().a, frozen);
    optimizer.zero_grad();
    sum(model(x)).backward();
    optimizer.step();
    return devices.counts(0).copies + devices.counts(1).copies - before;
  };
  std::uint64_t steady[2] = {};
  for (const bool frozen : {false, true})
    for (int step = 0; step < 3; ++step) steady[frozen] = copies_of_a_step(frozen);
  for (const bool frozen : {false, true, false, true}) EXPECT_EQ(copies_of_a_step(frozen), steady[frozen]) << frozen;
}

// Frozen parameters are not summed, also with several processes.
TEST(Freezing, SumsNothing) {
  for (const Layout& layout : kLayouts) {
    if (layout.processes * layout.devices == 1) continue;
    const Trace trace;
    for_each_process(layout, [&](const World& world, const DeviceIds& ids) {
      DataParallel model(Mlp(3, 4), {.device_ids = ids, .buckets = {.first_bytes = 1, .bytes = 1}, .world = world});
      const Tensor x = randn({2 * layout.devices, 3}, kWide);
      const auto sums_of_a_step = [&] {
        synchronize(model.device());
        const int before = testing::count_all_reduces(trace, model.device());
        sum(model(x)).backward();
        synchronize(model.device());
        return testing::count_all_reduces(trace, model.device()) - before;
      };
      sums_of_a_step();
      EXPECT_EQ(sums_of_a_step(), 4) << text_of(layout);
      freeze(model.module().a);
      EXPECT_EQ(sums_of_a_step(), 2) << text_of(layout);
      freeze(model.module().a, false);
      EXPECT_EQ(sums_of_a_step(), 4) << text_of(layout);
    });
  }
}

struct Normed : nn::Module<Normed> {
  nn::Linear fc{3, 2};
  nn::BatchNorm1d norm{2};
  auto members() { return nn::members("fc", fc, "norm", norm); }
  Tensor forward(const Tensor& x) { return norm(fc(x)); }
};

TEST(Freezing, IsTheSameInAllProcesses) {
  const SimulatedDevices devices({.count = 3});
  const auto messages = testing::thrown_in_processes<InvalidArgument>(3, [](const World& world) {
    DataParallel model(Normed(), {.device_ids = {world.rank().value()}, .world = world});
    const Tensor x = randn({4, 3});
    model(x);
    if (world.rank() == ProcessRank(2)) model.module().fc.bias->requires_grad_(false);
    model(x);
  });
  for (const std::string& message : messages) {
    EXPECT_NE(message.find("frozen parameters: fc.bias in process 2"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lockstep::freezing
