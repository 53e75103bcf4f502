#include <gtest/gtest.h>

#include <thread>

#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/sequential.h>

#include "parallel/mlp_job.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::floats;
using testing::Mlp;
using testing::Model;
using testing::printed;

TEST(DataParallel, EqualsTheModuleOnTheWholeBatch) {
  for (const int count : {1, 2, 3, 4, 7, 16})
    for (const std::int64_t rows : {30, 10, 7, 1}) {
      const TestDevices devices(count);
      Mlp module;
      const Tensor input = randn({rows, 5});
      const std::vector<float> expected = floats(module(input));
      DataParallel model(copy(module));
      const Tensor output = model(input);
      EXPECT_EQ(output.device(), Device("cuda:0"));
      EXPECT_EQ(output.sizes(), (Shape{rows, 2}));
      const std::vector<float> got = floats(output);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], 1e-5) << count << " devices, " << rows << " rows";
    }
}

TEST(DataParallel, KeysCarryModule) {
  const TestDevices devices(2);
  DataParallel model(Model(5, 2));
  std::vector<std::string> keys;
  for (const auto& [key, value] : model.state_dict()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"module.fc.weight", "module.fc.bias"}));
  model.module().load_state_dict(model.state_dict(), {.strip_prefix = "module."});
}

TEST(DataParallel, PassesThroughOnOneDevice) {
  const TestDevices devices(1);
  DataParallel model(Model(5, 2));
  EXPECT_EQ(printed([&] { model(randn({4, 5})); }), "\tIn Model: input size [4, 5] output size [4, 2]\n");
}

TEST(DataParallel, RunsOneReplicaOnAnEmptyBatch) {
  const TestDevices devices(3);
  DataParallel model(Model(5, 2));
  Tensor output;
  EXPECT_EQ(printed([&] { output = model(empty({0, 5})); }), "\tIn Model: input size [0, 5] output size [0, 2]\n");
  EXPECT_EQ(output.sizes(), (Shape{0, 2}));
}

// A vector reads two names in braces as the ends of a range.
template <class Options, class Name>
constexpr bool kTakesNames = requires(Name a, Name b) {
  Options{.device_ids = {a, b}};
}
|| requires(Name a, Name b) { Options{.device_ids = {{a, b}}}; };
static_assert(!kTakesNames<DataParallelOptions, const char*> && !kTakesNames<DataParallelOptions, char*>);
static_assert(kTakesNames<DataParallelOptions, int>);
static_assert(std::is_convertible_v<const std::vector<int>&, DeviceIds>);

TEST(DataParallel, TakesDevicesInAnyOrder) {
  const TestDevices devices(3);
  DataParallel model(Model(5, 2), {.device_ids = {2, 0}});
  EXPECT_EQ(model.device(), Device("cuda:2"));
  EXPECT_EQ(model.module().fc.weight.device(), Device("cuda:2"));
  EXPECT_EQ(model(randn({4, 5})).device(), Device("cuda:2"));
}

TEST(DataParallel, GathersWhereAsked) {
  const TestDevices devices(3);
  DataParallel model(Model(5, 2), {.output_device = Device("cuda:1")});
  EXPECT_EQ(model(randn({4, 5})).device(), Device("cuda:1"));
  DataParallel on_cpu(Model(5, 2), {.output_device = Device("cpu")});
  EXPECT_EQ(on_cpu(randn({4, 5})).device(), Device("cpu"));
}

TEST(DataParallel, TakesInputsFromAnyDevice) {
  const TestDevices devices(3);
  DataParallel model{Mlp()};
  const Tensor input = randn({8, 5});
  const std::vector<float> expected = floats(model(input));
  for (const int i : {0, 1, 2}) EXPECT_EQ(floats(model(input.cuda(i))), expected);
}

TEST(DataParallel, SeesAChangedParameterAtTheNextForward) {
  const TestDevices devices(3);
  DataParallel model(Model(5, 2));
  const Tensor input = randn({9, 5});
  model(input);
  {
    const NoGrad guard;
    model.module().fc.weight.fill_(0);
    model.module().fc.bias->fill_(3);
  }
  EXPECT_EQ(floats(model(input)), std::vector<float>(18, 3.0f));
}

TEST(DataParallel, CopiesParametersOnlyWhenTheyChanged) {
  SimulatedDevices devices({.count = 2});
  DataParallel model(Model(5, 2));
  const Tensor input = randn({4, 5}, {.device = "cuda:0"});
  const auto copies_of_a_pass = [&] {
    const std::uint64_t before = devices.counts(0).copies;
    model(input);
    return devices.counts(0).copies - before;
  };
  copies_of_a_pass();
  const std::uint64_t steady = copies_of_a_pass();
  EXPECT_EQ(copies_of_a_pass(), steady);
  {
    const NoGrad guard;
    model.module().fc.weight.fill_(1);
  }
  EXPECT_EQ(copies_of_a_pass(), steady + 1);
  EXPECT_EQ(copies_of_a_pass(), steady);
}

TEST(DataParallel, AllocatesNothingFromTheBackendInTheSteadyState) {
  const TestDevices devices(3);
  DataParallel model{Mlp()};
  const Tensor input = randn({30, 5}, {.device = "cuda:0"});
  for (int i = 0; i < 3; ++i) model(input);
  std::uint64_t before = 0, after = 0;
  for (int d = 0; d < 3; ++d) before += memory_stats(Device::cuda(d)).backend_allocations;
  for (int i = 0; i < 100; ++i) model(input);
  for (int d = 0; d < 3; ++d) after += memory_stats(Device::cuda(d)).backend_allocations;
  EXPECT_EQ(after, before);
}

TEST(DataParallel, AssignedReleasesWhatItHeldAtOnce) {
  const TestDevices devices(2);
  DataParallel large(Model(200, 50)), small(Model(5, 2));
  const auto in_use = [] { return memory_stats("cuda:1").in_use; };
  const std::size_t before = in_use();
  large = std::move(small);
  EXPECT_LE(in_use(), before - 200 * 50 * sizeof(float));
  EXPECT_EQ(large(ones({4, 5})).sizes(), (Shape{4, 2}));
  EXPECT_THROW(small(ones({4, 5})), InvalidArgument);
}

struct ModeModel : nn::Module<ModeModel> {
  double factor = 1;
  nn::Parameter weight{ones({1})};
  auto members() { return nn::members("factor", factor, "weight", weight); }
  Tensor forward(const Tensor& x) { return x * weight * (is_training() ? factor : 0.0); }
};

TEST(DataParallel, PassesModeAndSettingsToReplicas) {
  const TestDevices devices(2);
  DataParallel model{ModeModel()};
  const Tensor input = ones({2, 1});
  EXPECT_EQ(floats(model(input)), (std::vector<float>{1, 1}));
  model.module().factor = 5;
  EXPECT_EQ(floats(model(input)), (std::vector<float>{5, 5}));
  model.eval();
  EXPECT_EQ(floats(model(input)), (std::vector<float>{0, 0}));
}

// The kind and number of settings may change while their bytes stay equal.
struct Scaled : nn::Module<Scaled> {
  std::variant<float, std::int32_t> scale = 2.f;
  std::vector<std::vector<double>> more{{1, 2}, {}};
  nn::Parameter weight{ones({1})};
  auto members() { return nn::members("scale", scale, "more", more, "weight", weight); }
  Tensor forward(const Tensor& x) {
    return x * weight * std::visit([](auto value) { return double(value); }, scale) * double(more[0].size());
  }
};

TEST(DataParallel, PassesOnSettingsThatTakeAnotherForm) {
  const TestDevices devices(2);
  DataParallel model{Scaled()};
  const Tensor input = ones({2, 1});
  EXPECT_EQ(floats(model(input)), (std::vector<float>{4, 4}));
  model.module().scale = std::int32_t(3);
  EXPECT_EQ(floats(model(input)), (std::vector<float>{6, 6}));
  model.module().more = {{1}, {2}};
  EXPECT_EQ(floats(model(input)), (std::vector<float>{3, 3}));
}

struct Nested {
  Tensor ids;
  std::vector<Tensor> features;
  auto members() { return nn::members("ids", ids, "features", features); }
};

struct NestedModel : nn::Module<NestedModel> {
  nn::Parameter weight{ones({1})};
  auto members() { return nn::members("weight", weight); }
  std::tuple<Tensor, std::map<std::string, Tensor>, std::string> forward(Nested input,
                                                                         const std::optional<Tensor>& mask, int scale,
                                                                         const std::string& text) {
    EXPECT_EQ(text, "unchanged");
    return {
        input.ids * double(scale) * weight, {{"sum", input.features[0] + input.features[1]}, {"mask", *mask}}, text};
  }
};

TEST(DataParallel, SplitsAndJoinsNestedValues) {
  const TestDevices devices(3);
  DataParallel model{NestedModel()};
  const Tensor rows = arange(7, {.dtype = kFloat32}).view({7, 1});
  const auto [scaled, sums, text] =
      model(Nested{rows, {rows, rows * 2.0}}, std::optional(rows), 2, std::string("unchanged"));
  EXPECT_EQ(floats(scaled), (std::vector<float>{0, 2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(floats(sums.at("sum")), (std::vector<float>{0, 3, 6, 9, 12, 15, 18}));
  EXPECT_EQ(floats(sums.at("mask")), floats(rows));
  EXPECT_EQ(text, "unchanged");
}

struct Scale {
  double factor;
  bool operator==(const Scale&) const = default;
};
enum class Kind { once, twice };
struct Choosing : nn::Module<Choosing> {
  nn::Parameter weight{ones({1})};
  auto members() { return nn::members("weight", weight); }
  Tensor forward(const Tensor& x, const std::string& sign) { return sign == "minus" ? -x * weight : x * weight; }
  Tensor forward(const Tensor& x, std::nullopt_t, std::optional<double> factor) { return x * factor.value_or(1); }
  template <class T>
  requires requires(T scale) { scale.factor; }
  Tensor forward(const Tensor& x, const T& scale) { return x * scale.factor; }
  Tensor forward(const Tensor& x, const std::unique_ptr<int>& factor) { return x * double(*factor); }
  Tensor forward(const Tensor& x, Kind kind) { return kind == Kind::twice ? x * 2. : x; }
  Tensor forward(const Tensor& x, const std::vector<double>& factors) { return x * factors.at(0); }
  Tensor forward(const Tensor& x, double (*function)(double)) { return x * function(1); }
  template <class F>
  requires std::is_invocable_r_v<double, F&> Tensor forward(const Tensor& x, F& function) { return x * function(); }
};

TEST(DataParallel, TakesTheArgumentsThatItsModuleTakes) {
  const TestDevices devices(2);
  DataParallel model{Choosing()};
  const Tensor x = ones({2, 1});
  const Scale three{3};
  EXPECT_EQ(floats(model(x, "minus")), (std::vector<float>{-1, -1}));
  EXPECT_EQ(floats(model(x, three)), (std::vector<float>{3, 3}));
  EXPECT_EQ(floats(model(x, Scale{4})), (std::vector<float>{4, 4}));
  EXPECT_EQ(floats(model(x, std::nullopt, std::nullopt)), (std::vector<float>{1, 1}));
  EXPECT_EQ(floats(model(x, std::nullopt, 5.)), (std::vector<float>{5, 5}));
  EXPECT_EQ(floats(model(x, std::make_unique<int>(6))), (std::vector<float>{6, 6}));
  EXPECT_EQ(floats(model(x, Kind::twice)), (std::vector<float>{2, 2}));
  EXPECT_EQ(floats(model(x, std::vector{7.})), (std::vector<float>{7, 7}));
  EXPECT_EQ(floats(model(
                x, +[](double y) { return y + 7; })),
            (std::vector<float>{8, 8}));
  const std::function<double()> nine = [&three] { return three.factor * 3; };  // its captures cannot be visited
  EXPECT_EQ(floats(model(x, std::ref(nine))), (std::vector<float>{9, 9}));
}

struct LossModel : nn::Module<LossModel> {
  nn::Parameter weight{ones({1})};
  auto members() { return nn::members("weight", weight); }
  Tensor forward(const Tensor& x) { return mean(x * weight); }
};

TEST(DataParallel, GathersScalarsAsAVectorOrTheirWeightedMean) {
  const TestDevices devices(3);
  const Tensor rows = arange(10, {.dtype = kFloat32});
  DataParallel vector{LossModel()};
  EXPECT_EQ(floats(vector(rows)), (std::vector<float>{1.5f, 5.5f, 8.5f}));
  DataParallel mean_of(LossModel(), {.gather = Gather::mean});
  EXPECT_NEAR(mean_of(rows).item<float>(), 4.5f, 1e-6);
}

// The rank of an output does not depend on the number of devices.
TEST(DataParallel, GathersAScalarAsAVectorOnOneDeviceToo) {
  const TestDevices devices(1);
  const Tensor rows = ones({10});
  EXPECT_EQ(DataParallel(LossModel())(rows).sizes(), Shape{1});
  LossModel module;
  module.to("cuda:0");
  EXPECT_EQ(data_parallel(module, rows).sizes(), Shape{1});
  EXPECT_EQ(DataParallel(LossModel(), {.gather = Gather::mean})(rows).sizes(), Shape());
}

template <class E, class F>
std::string message(F&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(DataParallelRefuses, AParameterElsewhereByName) {
  const TestDevices devices(2);
  Model module(5, 2);
  module.to(Device("cuda:1"));
  const std::string refused = message<DeviceMismatch>([&] { DataParallel model(std::move(module)); });
  EXPECT_EQ(refused, "[DataParallel] expected parameter \"fc.weight\" on cuda:0, got it on cuda:1");
  DataParallel model(Model(5, 2));
  model.module().fc.bias->place("cuda:1");
  EXPECT_EQ(message<DeviceMismatch>([&] {
              model(randn({4, 5}));
            }),
            "[DataParallel] expected parameter \"fc.bias\" on cuda:0, got it on cuda:1");
}

TEST(DataParallelRefuses, ALazyModule) {
  const TestDevices devices(2);
  nn::Sequential module{nn::LazyLinear(2)};
  const std::string refused = message<InvalidArgument>([&] { DataParallel model(copy(module)); });
  EXPECT_NE(refused.find("run one batch"), std::string::npos) << refused;
  module(randn({2, 3}));
  DataParallel model(copy(module));
  EXPECT_EQ(model(randn({4, 3})).sizes(), (Shape{4, 2}));
}

TEST(DataParallelRefuses, DoubleWrapping) {
  const TestDevices devices(2);
  const nn::Sequential inner{DataParallel(nn::Linear(5, 2))};
  const std::string refused = message<InvalidArgument>([&] { DataParallel model(copy(inner)); });
  EXPECT_NE(refused.find("without DataParallel inside"), std::string::npos) << refused;
}

TEST(DataParallelRefuses, InputsThatDisagree) {
  const TestDevices devices(2);
  DataParallel model{NestedModel()};
  const Tensor seven = ones({7, 1}), six = ones({6, 1});
  EXPECT_EQ(message<ShapeError>([&] {
              model(Nested{seven, {seven, six}}, std::optional(seven), 2, std::string());
            }),
            "[scatter] expected 7 rows along dimension 0 as in arguments[0].ids, got shape [6, 1] as "
            "arguments[0].features[1]");
  const std::string scalar = message<ShapeError>([&] {
    model(Nested{seven, {}}, std::optional(ones({})), 2, std::string());
  });
  EXPECT_NE(scalar.find("got a 0-dim one as arguments[1]"), std::string::npos) << scalar;
}

TEST(DataParallelRefuses, AnOutputDeviceThatIsNotThereBeforeAnythingRuns) {
  const TestDevices devices(2);
  const DataParallelOptions options = {.output_device = Device("cuda:2")};
  const std::string expected =
      "[DataParallel] expected output_device to be the CPU or one of 2 visible GPUs, got cuda:2";
  EXPECT_EQ(message<InvalidArgument>([&] { DataParallel model(Model(5, 2), options); }), expected);
  Model module(5, 2);
  module.to("cuda:0");
  std::string refused;
  EXPECT_EQ(printed([&] { refused = message<InvalidArgument>([&] {
                            data_parallel(module, ones({4, 5}), options);
                          }); }),
            "");
  EXPECT_EQ(refused, expected);
}

TEST(DataParallelRefuses, AnOutputDeviceThatIsGone) {
  const TestDevices three(3);
  DataParallel model(Model(5, 2), {.device_ids = {0}, .output_device = Device("cuda:2")});
  const TestDevices one(1);
  const std::string refused = message<InvalidArgument>([&] { model(ones({4, 5})); });
  EXPECT_NE(refused.find("expected output_device"), std::string::npos) << refused;
}

TEST(DataParallelRefuses, AShardTooSmallForBatchNormAndNamesTheWaysOut) {
  const TestDevices devices(3);
  DataParallel model{nn::BatchNorm1d(4)};
  const std::string refused = message<ShapeError>([&] { model(randn({7, 4})); });  // 3, 3 and 1 row
  for (const char* way : {"replica 2", "got [1, 4]", "ScatterSplit::balanced", "drop_last", "SyncBatchNorm"})
    EXPECT_NE(refused.find(way), std::string::npos) << refused;
  const std::string alone = message<ShapeError>([&] { model(randn({1, 4})); });
  EXPECT_NE(alone.find("drop_last"), std::string::npos) << alone;
  EXPECT_EQ(alone.find("ScatterSplit::balanced"), std::string::npos) << alone;
}

TEST(DataParallelRefuses, DevicesThatAreNotThereOrTwice) {
  const TestDevices devices(2);
  EXPECT_THROW(DataParallel(Model(5, 2), {.device_ids = {0, 2}}), InvalidArgument);
  EXPECT_THROW(DataParallel(Model(5, 2), {.device_ids = {1, 1}}), InvalidArgument);
  EXPECT_THROW(DataParallel(Model(5, 2), {.scatter = {.weights = {1, 2, 3}}}), InvalidArgument);
}

struct FailingModel : nn::Module<FailingModel> {
  nn::Parameter weight{ones({1})};
  auto members() { return nn::members("weight", weight); }
  Tensor forward(const Tensor& x, const std::string& how) {
    if (x.device() != Device("cuda:0")) {
      if (how == "std") throw std::out_of_range("no such row");
      if (how == "shape") return x.view({1000});
      if (how == "own") throw 7;
    }
    return x * weight;
  }
};

TEST(DataParallel, RunsTheFirstReplicaOnTheCallersThread) {
  const TestDevices devices(3);
  std::thread::id threads[3];
  for (int pass = 0; pass < 2; ++pass) {
    run_replicas(try_all_gpus(), [&](std::size_t i) {
      EXPECT_TRUE(inside_replica());
      if (pass == 0) threads[i] = std::this_thread::get_id();
      EXPECT_EQ(threads[i], std::this_thread::get_id()) << "replica " << i << " moved to another thread";
    });
    EXPECT_FALSE(inside_replica());
  }
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_NE(threads[1], threads[0]);
  EXPECT_NE(threads[2], threads[0]);
  EXPECT_NE(threads[1], threads[2]);
}

TEST(DataParallel, RefusesDevicesThatReplicasCannotRunOn) {
  const SimulatedDevices devices({.count = 2});
  int ran = 0;
  const auto count = [&](std::size_t) { ++ran; };
  EXPECT_THROW(run_replicas({}, count), InvalidArgument);
  EXPECT_THROW(run_replicas(std::vector<Device>{"cuda:0", "cuda:0"}, count), InvalidArgument);
  EXPECT_THROW(run_replicas(std::vector<Device>{"cpu", "cpu"}, count), InvalidArgument);
  EXPECT_THROW(run_replicas(std::vector<Device>{"cuda:0", "cuda:1", "cuda:2"}, count), InvalidArgument);
  EXPECT_EQ(ran, 0);
}

TEST(DataParallel, ACopyKeepsTheMode) {
  const TestDevices devices(2);
  DataParallel model(Model(5, 2)), other(Model(5, 2));
  model.eval();
  const DataParallel copy(model);
  other = model;
  EXPECT_FALSE(copy.is_training());
  EXPECT_FALSE(other.is_training());
}

TEST(DataParallel, ThrowsTheLowestFailureAsItsOwnType) {
  const TestDevices devices(3);
  DataParallel model{FailingModel()};
  const Tensor input = ones({6, 1});
  try {
    model(input, std::string("shape"));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("in replica 1 on cuda:1"), std::string::npos) << error.what();
    ASSERT_EQ(error.attached().size(), 1u);
    const std::string other = message<ShapeError>([&] { std::rethrow_exception(error.attached()[0]); });
    EXPECT_NE(other.find("in replica 2 on cuda:2"), std::string::npos) << other;
  }
  EXPECT_EQ(message<std::out_of_range>([&] { model(input, std::string("std")); }),
            "no such row (in replica 1 on cuda:1)");
  EXPECT_THROW(model(input, std::string("own")), int);
  EXPECT_EQ(floats(model(input, std::string())), std::vector<float>(6, 1.0f));
}

TEST(DataParallel, IsAValue) {
  const TestDevices devices(2);
  DataParallel model(Model(5, 2));
  const Tensor input = randn({4, 5});
  const std::vector<float> before = floats(model(input));
  DataParallel copy(model);
  {
    const NoGrad guard;
    model.module().fc.weight.fill_(0);
  }
  EXPECT_EQ(floats(copy(input)), before);
  DataParallel moved = std::move(copy);
  EXPECT_EQ(floats(moved(input)), before);
}

TEST(DataParallelFunction, EqualsTheModule) {
  const TestDevices devices(3);
  Model module(5, 2);
  module.to(Device("cuda:0"));
  const Tensor input = randn({10, 5}, {.device = "cuda:0"});
  const std::vector<float> expected = floats(module(input)), got = floats(data_parallel(module, input));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
}

TEST(DataParallel, FollowsAModuleThatIsExchanged) {
  const TestDevices devices(3);
  DataParallel model(nn::Sequential(nn::ReLU(), nn::LayerNorm({4})));
  const Tensor input = randn({7, 4}, {.device = "cuda:0"});
  const auto expect_as_alone = [&] {
    EXPECT_EQ(testing::values(model(input)), testing::values(nn::Sequential(model.module())(input)));
  };
  expect_as_alone();
  model.module()[0] = nn::Tanh();
  expect_as_alone();
  const nn::LayerNorm wider({4}, {.eps = 0.5});
  model.module()[1].as<nn::LayerNorm>() = wider;
  expect_as_alone();
}

}  // namespace
}  // namespace lockstep
