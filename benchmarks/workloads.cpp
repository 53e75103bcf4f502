// The workloads that other libraries are measured on too.
//   workloads CASE        CASE: seed small
#include <lockstep/lockstep.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "harness.h"

using namespace lockstep;

// Linear(5, 2) on a batch of 30: what one call costs when there is next to nothing to compute.
void seed() {
  nn::Linear linear(5, 2);
  const Tensor x = randn({30, 5});
  bench::run("seed/forward", [&] { linear(x); });
}

// Eight floats: what dispatch, allocation and the graph cost.
void small() {
  const NoGrad guard;
  const Tensor a = randn({8}), b = randn({8}), matrix = randn({8, 8});
  bench::run("small/add", [&] { a + b; });
  bench::run("small/empty", [&] { empty({8}); });
  bench::run("small/view", [&] { matrix.view({64}); });
}

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> cases = {{"seed", seed}, {"small", small}};
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
