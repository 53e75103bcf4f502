// Small workloads whose instructions scripts/instructions counts under callgrind. Only instructions inside
// lockstep_measured() count.
//   instructions CASE COUNT     calls the workload COUNT times, after a warm-up
//   instructions                prints the cases, one per line, and the compiler that the counts depend on
#include <lockstep/lockstep.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "harness.h"

using namespace lockstep;

extern "C" [[gnu::noinline, gnu::used]] void lockstep_measured(const std::function<void()>& workload, long count) {
  for (long i = 0; i < count; ++i) workload();
}

namespace {

long calls = 1;

void measure(const std::function<void()>& workload) {
  for (int i = 0; i < 10; ++i) workload();
  lockstep_measured(workload, calls);
}

template <class Net>
void steps(Net net, const Tensor& x, const Tensor& y) {
  optim::Adam optimizer(net.parameters());
  measure([&] {
    optimizer.zero_grad();
    nn::mse_loss(net(x), y).backward();
    optimizer.step();
  });
}

void add() {
  const NoGrad guard;
  const Tensor a = randn({8}), b = randn({8});
  measure([&] { a + b; });
}

void add_recorded() {
  const Tensor a = randn({8}, {.requires_grad = true}), b = randn({8});
  measure([&] { a + b; });
}

void chain100_backward() {
  Tensor leaf = randn({8}, {.requires_grad = true});
  const Tensor b = randn({8}), seed = ones({8});
  measure([&] {
    leaf.set_grad(Tensor());
    Tensor x = leaf + b;
    for (int i = 1; i < 100; ++i) x = x + b;
    x.backward(seed);
  });
}

void mlp_forward() {
  const NoGrad guard;
  nn::Sequential net{nn::Linear(32, 64), nn::ReLU(), nn::Linear(64, 10)};
  const Tensor x = randn({16, 32}), y = randint(0, 10, {16});
  measure([&] { nn::cross_entropy(net(x), y); });
}

// The work of each kernel pattern per element.
void kernels() {
  const NoGrad guard;
  const Tensor x = randn({64, 256}), row = randn({256}), column = randn({64, 1});
  measure([&] {
    x + row;
    x* column;
    gelu(x);
    exp(x);
    sum(x);
    sum(x, {0});
    sum(x, {1});
    softmax(x, 1);
    nn::layer_norm(x, {256}, row, row);
    x.t().contiguous();
    x.to(kBFloat16);
  });
}

const bench::Cases kCases = {
    {"seed_step",
     [] {
       steps(nn::Linear(5, 2), randn({30, 5}), randn({30, 2}));
     }},
    {"mlp_step",
     [] {
       steps(nn::Sequential{nn::Linear(32, 64), nn::ReLU(), nn::Linear(64, 10)}, randn({16, 32}), randn({16, 10}));
     }},
    {"mlp_forward", mlp_forward},
    {"add", add},
    {"add_recorded", add_recorded},
    {"chain100_backward", chain100_backward},
    {"kernels", kernels}};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    for (const auto& [name, run] : kCases) std::printf("%s\n", name.c_str());
#if defined(__AVX2__)
    std::printf("compiler %s with AVX2\n", __VERSION__);
#else
    std::printf("compiler %s\n", __VERSION__);
#endif
    return 0;
  }
  set_num_threads(1);
  manual_seed(0);
  calls = argc > 2 ? std::atol(argv[2]) : 1;
  return bench::run_case(argc == 3 ? 2 : argc, argv, kCases);
}
