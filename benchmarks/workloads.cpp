// The workloads that other libraries are measured on too.
//   workloads CASE        CASE: seed mlp lenet resnet gpt lstm mlp_parallel small
#include <lockstep/lockstep.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "harness.h"
#include "models/gpt.h"
#include "models/lenet.h"
#include "models/lstm_classifier.h"
#include "models/resnet.h"

using namespace lockstep;

namespace {

/// One training step, and one forward without gradients.
template <class Loss>
void training(const std::string& name, optim::Optimizer& optimizer, const Loss& loss) {
  bench::run(name + "/step", [&] {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  });
  bench::run(name + "/forward_no_grad", [&] {
    const NoGrad guard;
    loss();
  });
}

// Linear(5, 2) on a batch of 30: what one call costs when there is next to nothing to compute.
void seed() {
  nn::Linear linear(5, 2);
  const Tensor x = randn({30, 5}), y = randn({30, 2});
  bench::run("seed/forward", [&] { linear(x); });
  optim::SGD optimizer(linear.parameters(), {.lr = 0.01});
  training("seed", optimizer, [&] { return nn::mse_loss(linear(x), y); });
}

nn::Sequential mlp_net() {
  return nn::Sequential(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 256), nn::ReLU(), nn::Linear(256, 10));
}

// 784-512-256-10, batch 256, SGD with momentum.
void mlp() {
  nn::Sequential net = mlp_net();
  const Tensor x = randn({256, 784}), y = randint(0, 10, {256});
  optim::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  training("mlp", optimizer, [&] { return nn::cross_entropy(net(x), y); });
}

// Batch 64, SGD with momentum.
template <class Net>
void images(const std::string& name, Net net) {
  const Tensor x = randn({64, 3, 32, 32}), y = randint(0, 10, {64});
  optim::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  training(name, optimizer, [&] { return nn::cross_entropy(net(x), y); });
}

// 4 layers of width 256 with 4 heads, 128 tokens, vocabulary 4096, batch 8, AdamW.
void transformer() {
  Gpt net({.vocabulary = 4096, .length = 128, .width = 256, .heads = 4, .layers = 4});
  const Tensor ids = randint(0, 4096, {8, 128}), next = randint(0, 4096, {8 * 128});
  optim::AdamW optimizer(net.parameters(), {.lr = 3e-4});
  training("gpt", optimizer, [&] { return nn::cross_entropy(net(ids).view({-1, 4096}), next); });
}

// Two layers 128 -> 256, 64 steps, batch 32, Adam; the last step feeds a classifier.
void lstm() {
  LstmClassifier net(128, 256, 10, 2);
  const Tensor x = randn({32, 64, 128}), y = randint(0, 10, {32});
  optim::Adam optimizer(net.parameters(), {.lr = 1e-3});
  training("lstm", optimizer, [&] { return nn::cross_entropy(net(x), y); });
}

/// Fifty training steps of a model, and a wait for their end.
template <class Model>
class MlpSteps {
 public:
  explicit MlpSteps(Model model, Device device)
      : model_(std::move(model)),
        x_(randn({256, 784}).to(device)),
        y_(randint(0, 10, {256}).to(device)),
        optimizer_(model_.parameters(), {.lr = 0.01, .momentum = 0.9}) {}
  void operator()() {
    for (int i = 0; i < 50; ++i) {
      optimizer_.zero_grad();
      nn::cross_entropy(model_(x_), y_).backward();
      optimizer_.step();
    }
    for (const Device& device : try_all_gpus()) synchronize(device);
  }

 private:
  Model model_;
  Tensor x_, y_;
  optim::SGD optimizer_;
};

// The mlp's steps on two simulated devices of one core each, against the CPU with both cores. The checks of the
// simulation are on, and then off.
void mlp_parallel() {
  for (const bool checks : {true, false}) {
    SimulatedDevices devices({.count = 2, .poison = checks, .check_races = checks});
    DataParallel replicated(mlp_net());
    MlpSteps two(std::move(replicated), "cuda:0");
    MlpSteps one(mlp_net(), "cpu");
    bench::compare(checks ? "mlp_parallel/checked" : "mlp_parallel/unchecked", std::ref(two), std::ref(one));
  }
}

// Eight floats: what dispatch, allocation and the graph cost.
void small() {
  const Tensor a = randn({8}), matrix = randn({8, 8}), ones_of_8 = ones({8});
  Tensor b = randn({8});
  {
    const NoGrad guard;
    bench::run("small/add", [&] { a + b; });
    bench::run("small/add_in_place", [&] { b.add_(a, 1e-9); });
    bench::run("small/empty", [&] { empty({8}); });
    bench::run("small/view", [&] { matrix.view({64}); });
    bench::run("small/item", [&] { sum(a).item<float>(); });
  }
  Tensor leaf = randn({8}, {.requires_grad = true});
  bench::run("small/add_recorded", [&] { leaf + b; });
  bench::run("small/chain100_backward", [&] {
    leaf.set_grad(Tensor());
    Tensor x = leaf + b;
    for (int i = 1; i < 100; ++i) x = x + b;
    x.backward(ones_of_8);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> cases = {{"seed", seed},
                                                              {"mlp", mlp},
                                                              {"lenet", [] { images("lenet", LeNet(3, 32)); }},
                                                              {"resnet", [] { images("resnet", ResNet18<>()); }},
                                                              {"gpt", transformer},
                                                              {"lstm", lstm},
                                                              {"mlp_parallel", mlp_parallel},
                                                              {"small", small}};
  if (argc != 2 || !cases.contains(argv[1])) {
    std::fprintf(stderr, "usage: workloads CASE, one of:");
    for (const auto& [name, run] : cases) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  set_num_threads(int(bench::from_environment("BENCH_THREADS", 2)));
  manual_seed(0);
  cases.at(argv[1])();
}
