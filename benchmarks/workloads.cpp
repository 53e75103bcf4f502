// The workloads on which other libraries are measured too, under the same names (peer/).
//   workloads CASE
// Training: seed mlp lenet resnet gpt gpt_sdpa lstm, and for a GPU gpt2 gpt2_medium gpt2_large gpt2_xl. The same with
// autocast: mlp_bfloat16 and so on. On two devices: mlp_parallel and so on; sharded, over whole: mlp_sharded and so on.
// Operations: elementwise matmul small d2l. All but those on two devices run on BENCH_DEVICE.
#include <lockstep/lockstep.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "compare.h"
#include "harness.h"
#include "models.h"

using namespace lockstep;

namespace {

TensorOptions there(bool requires_grad = false) { return {.device = bench::device(), .requires_grad = requires_grad}; }

/// Measures a training step, a forward without gradients, and on a GPU a captured training step.
template <class Model>
void training(const std::string& name, std::optional<DType> autocast = {}) {
  auto net = Model::net();
  net.to(bench::device());
  bench::Training<Model> model(std::move(net), bench::device(), autocast);
  bench::run(name + "/step", [&] { model.step(); });
  bench::run(name + "/forward_no_grad", [&] {
    const NoGrad guard;
    model.loss();
  });
  if (bench::device() == "cpu") return;
  train::CapturedStep captured([&] { model.step(); });
  bench::run(name + "/captured_step", [&] { captured(); });
}

void seed() {
  nn::Linear linear(5, 2);
  linear.to(bench::device());
  const Tensor x = randn({30, 5}, there());
  bench::run("seed/forward", [&] { linear(x); });
  training<bench::Seed>("seed");
}

/// Runs `count` training steps, and waits for their end.
template <class Training>
auto steps_of(Training& training, long count) {
  return [&training, count] {
    for (long i = 0; i < count; ++i) training.step();
    for (const Device& device : try_all_gpus()) synchronize(device);
  };
}

// Compares steps on two simulated devices of one core each with steps on BENCH_THREADS cores of the CPU; first without,
// then with the simulation's checks.
template <class Model>
void parallel(const std::string& name) {
  using Net = bench::WithLoss<Model>;
  for (const bool checks : {false, true}) {
    const SimulatedDevices devices(
        {.count = 2, .memory_bytes = std::size_t(8) << 30, .poison = checks, .check_races = checks});
    bench::Training<Model, DataParallel<Net>> two(DataParallel(Net(), {.gather = Gather::mean}), "cuda:0");
    bench::Training<Model> one(Model::net());
    auto step = steps_of(one, 1);
    bench::time_calls(1, step);
    const long steps = std::clamp(long(2e5 / bench::time_calls(1, step)), 1L, 50L);  // a call takes 0.2 s
    bench::compare(name + (checks ? "/checked_step" : "/step"), steps_of(two, steps), steps_of(one, steps), steps);
  }
}

// Compares steps on two simulated devices with each level of sharding with steps without sharding.
template <class Model>
void sharded(const std::string& name) {
  using Training = bench::Training<Model, DataParallel<bench::WithLoss<Model>>>;
  for (const Shard shard : {Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
    const SimulatedDevices devices(
        {.count = 2, .memory_bytes = std::size_t(8) << 30, .poison = false, .check_races = false});
    const auto model = [](Shard level) {
      return DataParallel(bench::WithLoss<Model>(), {.gather = Gather::mean, .shard = level});
    };
    Training divided(model(shard), "cuda:0"), whole(model(Shard::none), "cuda:0");
    auto step = steps_of(whole, 1);
    bench::time_calls(1, step);
    const long steps = std::clamp(long(2e5 / bench::time_calls(1, step)), 1L, 50L);  // a call takes 0.2 s
    std::ostringstream level;
    level << shard;
    bench::compare(name + '/' + level.str(), steps_of(divided, steps), steps_of(whole, steps), steps);
  }
}

// 16 Mi floats: bound by memory bandwidth. Each result is a new tensor, as in users' code.
void elementwise() {
  const NoGrad guard;
  const Tensor a = randn({16 << 20}, there()), rows = a.view({16384, 1024});
  const Tensor weight = ones({1024}, there()), bias = zeros({1024}, there());
  Tensor b = randn({16 << 20}, there());
  bench::run("elementwise/add", [&] { a + b; });
  bench::run("elementwise/add_in_place", [&] { b.add_(a, 1e-6); });
  bench::run("elementwise/relu", [&] { relu(a); });
  bench::run("elementwise/gelu", [&] { gelu(a); });
  bench::run("elementwise/exp", [&] { exp(a); });
  bench::run("elementwise/softmax", [&] { softmax(rows, -1); });
  bench::run("elementwise/layer_norm", [&] { nn::layer_norm(rows, {1024}, weight, bias); });
  bench::run("elementwise/sum", [&] { sum(a); });
  bench::run("elementwise/sum_rows", [&] { sum(rows, {0}); });
  bench::run("elementwise/transpose_copy", [&] { rows.t().contiguous(); });
}

void products() {
  const NoGrad guard;
  const auto product = [](const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n) {
    const Tensor a = randn({m, k}, there()), b = randn({k, n}, there());
    bench::run("matmul/" + name, [&] { mm(a, b); });
  };
  product("1024x1024x1024", 1024, 1024, 1024);
  product("4096x1024x1024", 4096, 1024, 1024);
  product("100x100x100", 100, 100, 100);
  const Tensor q = randn({32, 128, 64}, there()), k = randn({32, 64, 128}, there());
  bench::run("matmul/batched_32x128x64x128", [&] { bmm(q, k); });
}

// Eight floats: the overhead of dispatch, allocation and the graph.
void small() {
  const TensorOptions options = there();
  const Tensor a = randn({8}, options), matrix = randn({8, 8}, options), ones_of_8 = ones({8}, options);
  Tensor b = randn({8}, options);
  {
    const NoGrad guard;
    bench::run("small/add", [&] { a + b; });
    bench::run("small/add_in_place", [&] { b.add_(a, 1e-9); });
    bench::run("small/empty", [&] { empty({8}, options); });
    bench::run("small/view", [&] { matrix.view({64}); });
    bench::run("small/item", [&] { sum(a).item<float>(); });
  }
  Tensor leaf = randn({8}, there(true));
  bench::run("small/add_recorded", [&] { leaf + b; });
  bench::run("small/chain100_backward", [&] {
    leaf.set_grad(Tensor());
    Tensor x = leaf + b;
    for (int i = 1; i < 100; ++i) x = x + b;
    x.backward(ones_of_8);
  });
}

// A thousand products of 100 x 100. Reads the norm of each at once, or keeps the norms in tensors and reads their sum.
void d2l() {
  const NoGrad guard;
  const Tensor a = randn({100, 100}, there()), b = randn({100, 100}, there());
  double sink = 0;
  bench::run("d2l/log_each", [&] {
    for (int i = 0; i < 1000; ++i) sink += norm(mm(a, b)).item<double>();
  });
  bench::run("d2l/log_in_tensor", [&] {
    std::vector<Tensor> log;
    for (int i = 0; i < 1000; ++i) log.push_back(norm(mm(a, b)));
    sink += sum(stack(log)).item<double>();
  });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Cases cases = {
      {"seed", seed}, {"elementwise", elementwise}, {"matmul", products}, {"small", small}, {"d2l", d2l}};
  const auto add_training = [&]<class Model>(Model, const std::string& name) {
    cases[name] = [name] { training<Model>(name); };
    cases[name + "_bfloat16"] = [name] { training<Model>(name + "_bfloat16", kBFloat16); };
  };
  bench::for_each_model([&]<class Model>(Model model) {
    const std::string name = Model::kName;
    if constexpr (!std::is_same_v<Model, bench::Seed>) {
      add_training(model, name);
      cases[name + "_parallel"] = [name] { parallel<Model>(name + "_parallel"); };
      cases[name + "_sharded"] = [name] { sharded<Model>(name + "_sharded"); };
    }
  });
  add_training(bench::SmallGpt(), "gpt_sdpa");  // the same here; the peers' attention differs
  add_training(bench::Gpt2(), "gpt2");
  add_training(bench::Gpt2Medium(), "gpt2_medium");
  add_training(bench::Gpt2Large(), "gpt2_large");
  add_training(bench::Gpt2Xl(), "gpt2_xl");
  set_num_threads(int(bench::from_environment("BENCH_THREADS", 2)));
  manual_seed(0);
  if (bench::device() != "cpu") bench::wait_for_device = [] { synchronize(bench::device()); };
  return bench::run_case(argc, argv, cases);
}
