// The weight of each process's loss: gradients are those of one process with the whole batch.
#include <gtest/gtest.h>

#include <functional>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/unary.h>
#include <lockstep/parallel/sync_batch_norm.h>

#include "parallel/mlp_job.h"
#include "support/in_processes.h"

namespace lockstep::process_weights {
namespace {

using testing::in_processes;

void expect_none(const std::vector<std::exception_ptr>& thrown) {
  for (const std::exception_ptr& each : thrown) try {
      if (each) std::rethrow_exception(each);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
}

// Divides the rows of a batch between processes, in order.
struct Division {
  std::vector<std::int64_t> rows;  // of each process
  int devices = 1;

  int processes() const { return int(rows.size()); }
  std::int64_t all() const {
    std::int64_t sum = 0;
    for (const std::int64_t n : rows) sum += n;
    return sum;
  }
  Tensor mine(const World& world, const Tensor& batch) const {
    if (world.size() == 1) return batch;
    std::int64_t begin = 0;
    for (int p = 0; p < world.rank().value(); ++p) begin += rows[std::size_t(p)];
    return batch.narrow(0, begin, rows[std::size_t(world.rank().value())]);
  }
};

DeviceIds devices_of(const World& world, int each) {
  DeviceIds ids;
  for (int d = 0; d < each; ++d) ids.push_back(world.rank().value() * each + d);
  return ids;
}

struct Net : nn::Module<Net> {
  nn::Linear first{4, 6}, last{6, 2};
  nn::SyncBatchNorm norm{6};
  Net() { to(kFloat64); }
  auto members() { return nn::members("first", first, "last", last, "norm", norm); }
  Tensor forward(const Tensor& x) { return last(tanh(norm(first(x)))); }
};

using Model = DataParallel<Net>;
using Rows = std::function<Tensor(const Tensor& batch)>;
// Runs backward of a loss; returns further tensors to compare.
using Job = std::function<std::vector<Tensor>(Model& model, const Rows& mine)>;

std::vector<double> gradients(const World& world, const Division& division, int devices, const Job& job) {
  GeneratorState numbers = {.seed = 11};
  const GeneratorGuard guard(numbers);
  Model model(Net(), {.device_ids = devices_of(world, devices), .world = world});
  const std::vector<Tensor> more =
      job(model, [&](const Tensor& batch) { return division.mine(world, batch).to(model.device()); });
  std::vector<double> all;
  for (const Tensor& p : model.parameters())
    if (const Tensor g = p.grad(); g.defined())
      for (const double v : g.to(Device()).to_vector<double>()) all.push_back(v);
  for (const Tensor& each : more)
    for (const double v : each.detach().to(Device()).to_vector<double>()) all.push_back(v);
  return all;
}

const std::vector<Division> kDivisions = {{{4, 3}, 1},    {{5, 2}, 2}, {{3, 3, 1}, 1},
                                          {{3, 2, 2}, 2}, {{6, 1}, 3}, {{4, 4}, 1}};

// `job` draws a batch of `rows` rows, equal in all processes, and takes its own rows of it.
void expect_as_one(const std::function<std::vector<Tensor>(Model&, const Rows&, std::int64_t rows)>& job) {
  for (const Division& division : kDivisions) {
    const Job bound = [&](Model& model, const Rows& mine) { return job(model, mine, division.all()); };
    const SimulatedDevices devices({.count = division.processes() * division.devices});
    std::vector<double> one;
    expect_none(in_processes(1, [&](const World& world) { one = gradients(world, division, 1, bound); }));
    ASSERT_FALSE(one.empty());
    expect_none(in_processes(division.processes(), [&](const World& world) {
      const std::vector<double> got = gradients(world, division, division.devices, bound);
      ASSERT_EQ(got.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i)
        ASSERT_NEAR(got[i], one[i], 1e-10 * (1 + std::abs(one[i])))
            << i << " of " << division.processes() << " x " << division.devices << ", rows " << division.rows[0];
    }));
  }
}

TEST(ProcessWeights, CountATermOutsideOfTheModelOnce) {
  expect_as_one([](Model& model, const Rows& mine, std::int64_t rows) {
    const Tensor x = mine(randn({rows, 4}, kFloat64));
    Tensor loss = mean(square(model(x)));
    for (const Tensor& p : model.parameters()) loss = loss + 0.3 * sum(square(p));
    loss.backward();
    return std::vector<Tensor>();
  });
}

TEST(ProcessWeights, CountALossOfParametersAloneOnce) {
  expect_as_one([](Model& model, const Rows&, std::int64_t) {
    Tensor loss = zeros({}, {.dtype = kFloat64, .device = model.device()});
    for (const Tensor& p : model.parameters()) loss = loss + 0.3 * sum(square(p));
    loss.backward();
    return std::vector<Tensor>();
  });
}

TEST(ProcessWeights, GiveInputsTheGradientOfTheWholeBatchsMean) {
  for (const Division& division : kDivisions) {
    const SimulatedDevices devices({.count = division.processes() * division.devices});
    const auto run = [&](const World& world, int each) {
      GeneratorState numbers = {.seed = 11};
      const GeneratorGuard guard(numbers);
      Model model(Net(), {.device_ids = devices_of(world, each), .world = world});
      Tensor input = division.mine(world, randn({division.all(), 4}, kFloat64)).to(model.device()).clone();
      input.requires_grad_();
      mean(square(model(input))).backward();
      return input.grad().to(Device()).to_vector<double>();
    };
    std::vector<double> one;
    expect_none(in_processes(1, [&](const World& world) { one = run(world, 1); }));
    std::vector<std::vector<double>> parts(std::size_t(division.processes()));
    expect_none(in_processes(division.processes(), [&](const World& world) {
      parts[std::size_t(world.rank().value())] = run(world, division.devices);
    }));
    std::vector<double> got;
    for (const auto& part : parts) got.insert(got.end(), part.begin(), part.end());
    ASSERT_EQ(got.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(got[i], one[i], 1e-11);
  }
}

TEST(ProcessWeights, AreExactForAGradientPenaltyThroughSyncBatchNorm) {
  expect_as_one([](Model& model, const Rows& mine, std::int64_t rows) {
    Tensor x = mine(randn({rows, 4}, kFloat64)).clone();
    x.requires_grad_();
    const Tensor slope = lockstep::gradients({sum(model(x))}, {x}, {}, {.create_graph = true})[0];
    const Tensor penalty = mean(square(sum(square(slope), 1) - 1.));
    (penalty + mean(square(model(x.detach())))).backward();
    return std::vector<Tensor>();
  });
}

// One loss over two passes, whose rows are divided differently.
TEST(ProcessWeights, WeighEachOfSeveralPassesByItsRows) {
  const SimulatedDevices devices({.count = 3});
  const std::vector<Division> real = {{{7, 5}}, {{6, 4, 2}}, {{0, 4}}}, made = {{{2, 4}}, {{1, 2, 3}}, {{3, 0}}};
  for (std::size_t k = 0; k < real.size(); ++k) {
    const auto run = [&](const World& world) {
      return gradients(world, real[k], 1, [&](Model& model, const Rows&) {
        const Tensor a = real[k].mine(world, randn({real[k].all(), 4}, kFloat64)).to(model.device());
        const Tensor b = made[k].mine(world, randn({made[k].all(), 4}, kFloat64)).to(model.device());
        model.eval();
        const auto mean_of = [](const Tensor& t) { return t.size(0) ? mean(t) : sum(t); };
        Tensor loss = mean_of(square(model(a))) - mean_of(tanh(model(b)));
        for (const Tensor& p : model.parameters()) loss = loss + 0.3 * sum(square(p));
        loss.backward();
        return std::vector<Tensor>();
      });
    };
    std::vector<double> one;
    expect_none(in_processes(1, [&](const World& world) { one = run(world); }));
    expect_none(in_processes(real[k].processes(), [&](const World& world) {
      const std::vector<double> got = run(world);
      ASSERT_EQ(got.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(got[i], one[i], 1e-11) << i << " of case " << k;
    }));
  }
}

// The direct use of an output counts by the output's pass, and its use through another pass counts by that one.
TEST(ProcessWeights, WeighAnOutputThatIsUsedDirectlyAndThroughAnotherPass) {
  const SimulatedDevices devices({.count = 3});
  const std::vector<Division> rows = {{{3, 3}}, {{4, 1, 1}}}, others = {{{2, 1}}, {{1, 1, 1}}};
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const auto run = [&](const World& world, bool through_a_result) {
      return gradients(world, rows[k], 1, [&](Model& model, const Rows&) {
        model.eval();
        const Tensor x = rows[k].mine(world, randn({rows[k].all(), 4}, kFloat64)).to(model.device());
        const Tensor weight = randn({2, 4}, kFloat64).to(model.device());
        const Tensor made = through_a_result ? tanh(model(x)) : model(x);
        // The first rows of each process enter the second pass. A single process takes the same rows.
        std::vector<Tensor> first;
        for (std::int64_t p = 0, begin = 0; p < rows[k].processes(); begin += rows[k].rows[std::size_t(p++)])
          if (world.size() == 1 || p == world.rank().value())
            first.push_back(made.narrow(0, world.size() == 1 ? begin : 0, others[k].rows[std::size_t(p)]));
        (mean(square(made)) + mean(square(model(matmul(cat(first), weight))))).backward();
        return std::vector<Tensor>();
      });
    };
    for (const bool through_a_result : {false, true}) {
      std::vector<double> one;
      expect_none(in_processes(1, [&](const World& world) { one = run(world, through_a_result); }));
      expect_none(in_processes(rows[k].processes(), [&](const World& world) {
        const std::vector<double> got = run(world, through_a_result);
        ASSERT_EQ(got.size(), one.size());
        for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(got[i], one[i], 1e-11) << i << " of case " << k;
      }));
    }
  }
}

// A parameter that the loss uses with an output, such as a temperature, counts by that output's pass.
TEST(ProcessWeights, WeighAParameterBesideAnOutputByTheOutputsPass) {
  const SimulatedDevices devices({.count = 3});
  const std::vector<Division> rows = {{{3, 2}}, {{4, 1, 1}}}, others = {{{1, 3}}, {{1, 1, 2}}};
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const auto run = [&](const World& world) {
      return gradients(world, rows[k], 1, [&](Model& model, const Rows&) {
        model.eval();
        const Tensor x = rows[k].mine(world, randn({rows[k].all(), 4}, kFloat64)).to(model.device());
        const Tensor z = others[k].mine(world, randn({others[k].all(), 4}, kFloat64)).to(model.device());
        const Tensor t = sum(square(model.parameters()[0]));
        (mean(square(model(x) * t)) + 2. * mean(tanh(model(z))) + t).backward();
        return std::vector<Tensor>();
      });
    };
    std::vector<double> one;
    expect_none(in_processes(1, [&](const World& world) { one = run(world); }));
    expect_none(in_processes(rows[k].processes(), [&](const World& world) {
      const std::vector<double> got = run(world);
      ASSERT_EQ(got.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i)
        ASSERT_NEAR(got[i], one[i], 1e-11 * (1 + std::abs(one[i]))) << i << " of case " << k;
    }));
  }
}

// Expects the error of a backward through `join` of the outputs of 5 rows and of 1 row.
void expect_refused(Tensor (*join)(const Tensor& of_many, const Tensor& of_one), const std::string& named) {
  const SimulatedDevices devices({.count = 2});
  const Division rows{{3, 2}};
  for (const std::exception_ptr& each : in_processes(2, [&](const World& world) {
         gradients(world, rows, 1, [&](Model& model, const Rows&) {
           model.eval();
           const Tensor x = rows.mine(world, randn({5, 4}, kFloat64)).to(model.device());
           mean(join(model(x), model(x.narrow(0, 0, 1)))).backward();
           return std::vector<Tensor>();
         });
       }))
    EXPECT_NE(testing::message_of<AutogradError>(each).find("in " + named + ", which is not a linear operation"),
              std::string::npos);
}

TEST(ProcessWeights, RefuseProductsOfPassesThatHaveOtherRows) {
  expect_refused([](const Tensor& many, const Tensor& one) { return mean(many) * mean(one); }, "Mul");
}

TEST(ProcessWeights, RefuseChangesOfAPartByAPassThatHasOtherRows) {
  expect_refused(
      [](const Tensor& many, const Tensor& one) {
        Tensor out = many * 1.;
        out[0].mul_(one[0]);
        return out;
      },
      "CopySlices");
}

// A number for each replica counts by replicas.
struct Number : nn::Module<Number> {
  nn::Parameter weight{ones({1}, {.dtype = kFloat64})};
  auto members() { return nn::members("weight", weight); }
  Tensor forward(const Tensor& x, const Tensor& y) { return mean(square(x * weight - y)); }
};

TEST(ProcessWeights, CountReplicasWhereEachBringsANumber) {
  const SimulatedDevices devices({.count = 2});
  const auto run = [&](const World& world, const DeviceIds& ids) {
    DataParallel model(Number(), {.device_ids = ids, .world = world});
    const Tensor x = tensor({1., 2., 5.}).to(kFloat64), y = tensor({0., 1., -2.}).to(kFloat64);
    const Division division = {{2, 1}};
    const Tensor mine = division.mine(world, x), target = division.mine(world, y);
    mean(model(mine, target)).backward();
    return model.module().weight.grad().to(Device()).to_vector<double>()[0];
  };
  double one = 0;
  expect_none(in_processes(1, [&](const World& world) { one = run(world, {0, 1}); }));
  expect_none(in_processes(2, [&](const World& world) { EXPECT_DOUBLE_EQ(run(world, {world.rank().value()}), one); }));
}

// Outputs rows and a number for each replica, in one loss whose input needs a gradient.
struct RowsAndNumber : nn::Module<RowsAndNumber> {
  nn::Linear fc{3, 1};
  RowsAndNumber() { to(kFloat64); }
  auto members() { return nn::members("fc", fc); }
  std::pair<Tensor, Tensor> forward(const Tensor& x) {
    const Tensor y = tanh(fc(x));
    return {y, sum(y)};
  }
};

TEST(ProcessWeights, CountRowsAndReplicasInOneLoss) {
  const SimulatedDevices devices({.count = 2});
  const auto run = [&](const World& world, const DataParallelOptions& options) {
    GeneratorState numbers = {.seed = 11};
    const GeneratorGuard guard(numbers);
    DataParallel model(RowsAndNumber(), options);
    const Division division = {{4, 2}};
    Tensor x = division.mine(world, randn({6, 3}, kFloat64)).to(model.device()).clone();
    x.requires_grad_();
    const auto [y, number] = model(x);
    (mean(square(y)) + mean(square(number))).backward();
    std::vector<double> all = model.module().fc.weight.grad().to(Device()).to_vector<double>();
    const std::vector<double> of_x = x.grad().to(Device()).to_vector<double>();
    all.insert(all.end(), of_x.begin(), of_x.begin() + 6);  // the gradient of the first two rows
    return all;
  };
  std::vector<double> one;
  expect_none(in_processes(1, [&](const World& world) {
    one = run(world, {.device_ids = {0, 1}, .scatter = {.weights = {2, 1}}});
  }));
  expect_none(in_processes(2, [&](const World& world) {
    const std::vector<double> got = run(world, {.device_ids = devices_of(world, 1), .world = world});
    for (std::size_t i = 0; i < (world.is_first() ? 9u : 3u); ++i) EXPECT_NEAR(got[i], one[i], 1e-12) << i;
  }));
}

TEST(ProcessWeights, RefuseGradientsOfParametersThatOtherProcessesHavePartsOf) {
  const SimulatedDevices devices({.count = 2});
  for (const std::exception_ptr& each : in_processes(2, [&](const World& world) {
         Model model(Net(), {.device_ids = devices_of(world, 1), .world = world});
         lockstep::gradients({sum(model(ones({2, 4}, kFloat64)))}, {model.parameters()[0]});
       }))
    EXPECT_NE(testing::message_of<AutogradError>(each).find("call backward() and read grad()"), std::string::npos);
}

// Two norms of different widths, whose backward each process and device reaches in its own order.
struct Norms : nn::Module<Norms> {
  nn::Linear a{4, 8}, b{4, 5};
  nn::SyncBatchNorm first{8}, second{5};
  bool both = true;
  Norms() { to(kFloat64); }
  auto members() { return nn::members("a", a, "b", b, "first", first, "second", second, "both", both); }
  Tensor forward(const Tensor& x) {
    const Tensor left = sum(square(tanh(first(a(x)))), 1);
    return both ? left + sum(tanh(second(b(x))), 1) : left;
  }
};

TEST(SumsOfABackward, AreOfOneOrderInAllProcesses) {
  const auto run = [](const World& world, int each) {
    GeneratorState numbers = {.seed = 3};
    const GeneratorGuard guard(numbers);
    DataParallel model(Norms(), {.device_ids = devices_of(world, each), .world = world});
    const Tensor x = randn({8, 4}, kFloat64);
    const Division division = {{4, 4}};
    std::vector<double> all;
    for (int step = 0; step < 20; ++step) {
      for (Tensor& p : model.parameters()) p.set_grad({});
      mean(model(division.mine(world, x).to(model.device()))).backward();
    }
    for (const Tensor& p : model.parameters())
      for (const double v : p.grad().to(Device()).to_vector<double>()) all.push_back(v);
    return all;
  };
  std::vector<double> one;
  {
    const SimulatedDevices devices({.count = 1});
    expect_none(in_processes(1, [&](const World& world) { one = run(world, 1); }));
  }
  const SimulatedDevices devices({.count = 4});
  for (int repeat = 0; repeat < 5; ++repeat)
    expect_none(in_processes(2, [&](const World& world) {
      const std::vector<double> got = run(world, 2);
      for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(got[i], one[i], 1e-11);
    }));
}

TEST(SumsOfABackward, ThatOneProcessLacksAreNamedByAll) {
  const SimulatedDevices devices({.count = 2});
  const auto thrown = in_processes(2, [&](const World& world) {
    DataParallel model(Norms(), {.device_ids = devices_of(world, 1), .world = world});
    const Tensor x = ones({2, 4}, kFloat64);
    const Tensor one = model(x), two = model(x);
    (world.is_first() ? sum(one + two) : sum(one)).backward();
  });
  for (const std::exception_ptr& each : thrown)
    EXPECT_NE(testing::message_of<InvalidArgument>(each).find("and nothing like it in process 1"), std::string::npos)
        << testing::message_of<InvalidArgument>(each);
}

}  // namespace
}  // namespace lockstep::process_weights
