// Measures the share of the memory bandwidth that each kernel pattern reaches, compared with a copy on the same device.
//   bandwidth [MIB]       MiB of each float32 operand: 256 by default
// Prints a Markdown table of bytes read and written per second, also relative to the copy. Calls are enqueued without
// waiting, for about 50 ms of device time, so that host time matters only if the device has to wait for the host.
#include <lockstep/lockstep.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;

double seconds(int calls, const std::function<void()>& call) {
  synchronize("cuda:0");
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  synchronize("cuda:0");
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Bytes per second: the median of five measurements.
double rate(double bytes, const std::function<void()>& call) {
  seconds(2, call);
  const double once = seconds(3, call) / 3;
  const int calls = int(std::ceil(0.05 / once));
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) rates.push_back(bytes * calls / seconds(calls, call));
  std::sort(rates.begin(), rates.end());
  return rates[2];
}

}  // namespace

int main(int argc, char** argv) {
  if (cuda::device_count() == 0) {
    std::puts("cuda: NOT RUN: there is no device");
    return 0;
  }
  const NoGrad guard;
  const std::int64_t elements = std::int64_t(argc > 1 ? std::atol(argv[1]) : 256) << 18, columns = 1024;
  const Shape sizes = {elements / columns, columns};
  const TensorOptions there = {.device = "cuda:0"};
  const Tensor x = randn(sizes, there), y = randn(sizes, there);
  const Tensor half = x.to(kFloat16), brain = x.to(kBFloat16);
  Tensor into = empty(sizes, there), half_into = empty_like(half);
  const Tensor rows = arange(double(sizes[0]), {.dtype = kInt64, .device = "cuda:0"});
  Tensor parameter = randn(sizes, there).requires_grad_();
  parameter.set_grad(y.clone());
  optim::SGD optimizer({parameter}, {.lr = 0.1, .momentum = 0.9});
  const std::vector<Tensor> parameters = {parameter};

  const double all = double(elements) * 4;  // bytes of one float32 operand
  const double copy = rate(2 * all, [&] { into.copy_(x); });
  std::printf("%s, %.0f MB an operand: a copy moves %.0f GB/s\n\n", properties("cuda:0").name.c_str(), all / 1e6,
              copy / 1e9);
  std::printf("| pattern | operation | GB/s | of a copy |\n|---|---|---|---|\n");
  const auto row = [&](const char* pattern, const char* operation, double bytes, const std::function<void()>& call) {
    const double got = rate(bytes, call);
    std::printf("| %s | %s | %.0f | %.2f |\n", pattern, operation, got / 1e9, got / copy);
    std::fflush(stdout);
  };
  row("map, dense", "x + y", 3 * all, [&] { x + y; });
  row("map, dense", "x + y in float16", 1.5 * all, [&] { half + half; });
  row("map, dense", "x + y in bfloat16", 1.5 * all, [&] { brain + brain; });
  row("map, dense", "float32 to float16", 1.5 * all, [&] { half_into.copy_(x); });
  row("map, strided", "x + one row", 2 * all, [&] { x + y[0]; });
  row("map, strided", "a transpose", 2 * all, [&] { x.t().contiguous(); });
  row("reduce", "sum of rows", all, [&] { sum(x, {1}); });
  row("reduce", "sum of columns", all, [&] { sum(x, {0}); });
  row("reduce", "sum of all", all, [&] { sum(x); });
  row("rows", "softmax of rows", 2 * all, [&] { softmax(x, 1); });
  row("items", "normal numbers", all, [&] { normal_(into, 0, 1); });
  row("map of rows by index", "index_select", 2 * all, [&] { index_select(x, 0, rows); });
  row("multi_map", "SGD with momentum", 5 * all, [&] { optimizer.step(); });
  row("multi_reduce and multi_map", "clip_grad_norm_", 3 * all, [&] { optim::clip_grad_norm_(parameters, 1e9); });
}
