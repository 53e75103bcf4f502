// Measures how the time of a step grows with its input, and whether time or memory grow that should not.
//   growth CASE
//     batch width depth   of a net of equal linear layers on the CPU
//     devices             1 to 64 simulated ones with equally many rows: the host's cost per device
//     operations          additions of eight floats, on the CPU and on a simulated device: the cost per operation
//     steps               BENCH_STEPS (100000) small steps: time and memory at the end against the beginning
// Prints one JSON object per line. Times are the least of several. "exponent" is the slope of log(time) over log(size),
// "us_each" that of time over size, by least squares over the upper half of the sizes. Exits with 1 if a limit is
// exceeded. BENCH_SECONDS (0.5 here) bounds each measurement; BENCH_THREADS is 1 by default here.
#include <lockstep/lockstep.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"

using namespace lockstep;

namespace {

bool within_limits = true;

struct Point {
  double size = 0, us = 0;
};

template <class Function>
Point measured(std::int64_t size, Function function) {
  return {double(size), bench::measure(bench::from_environment("BENCH_SECONDS", 0.5), function).least_us};
}

// Fits a line to the upper half of the points by least squares: {slope, intercept}.
template <class Scale>
std::pair<double, double> fitted(const std::vector<Point>& points, Scale scale) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = points.size() / 2; i < points.size(); ++i) {
    const double a = scale(points[i].size), b = scale(points[i].us);
    n += 1, x += a, y += b, xx += a * a, xy += a * b;
  }
  const double slope = (n * xy - x * y) / (n * xx - x * x);
  return {slope, (y - slope * x) / n};
}

void check(const std::string& what, double value, double most) {
  if (value <= most) return;
  within_limits = false;
  std::fprintf(stderr, "growth: %s is %.3f: at most %.3f is expected\n", what.c_str(), value, most);
}

void report(const std::string& name, const std::vector<Point>& points, double most) {
  const double exponent = fitted(points, [](double value) { return std::log(value); }).first;
  const double each = fitted(points, [](double value) { return value; }).first;
  std::printf("{\"name\": \"growth/%s\", \"exponent\": %.3f, \"us_each\": %.3f, \"us\": {", name.c_str(), exponent,
              each);
  for (std::size_t i = 0; i < points.size(); ++i)
    std::printf("%s\"%.0f\": %.2f", i == 0 ? "" : ", ", points[i].size, points[i].us);
  std::printf("}}\n");
  std::fflush(stdout);
  check("the exponent of " + name, exponent, most);
}

struct Layers : nn::Module<Layers> {
  std::vector<nn::Linear> layers;

  Layers(std::int64_t depth, std::int64_t width) {
    for (std::int64_t i = 0; i < depth; ++i) layers.emplace_back(width, width);
  }
  auto members() { return nn::members("layers", layers); }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = relu(layer(x));
    return x;
  }
};

template <class Net>
void step(Net& net, optim::SGD& optimizer, const Tensor& x, const Tensor& y) {
  optimizer.zero_grad();
  nn::mse_loss(net(x), y).backward();
  optimizer.step();
}

Point step_on_cpu(std::int64_t size, std::int64_t depth, std::int64_t width, std::int64_t rows) {
  Layers net(depth, width);
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  const Tensor x = randn({rows, width}), y = randn({rows, width});
  return measured(size, [&] { step(net, optimizer, x, y); });
}

void batch() {
  std::vector<Point> points;
  for (std::int64_t rows = 16; rows <= 4096; rows *= 2) points.push_back(step_on_cpu(rows, 4, 256, rows));
  report("batch", points, 1.1);
}

void width() {
  std::vector<Point> points;
  for (std::int64_t width = 32; width <= 2048; width *= 2) points.push_back(step_on_cpu(width, 4, width, 128));
  report("width", points, 2.2);
}

void depth() {
  std::vector<Point> points;
  for (std::int64_t depth = 1; depth <= 256; depth *= 2) points.push_back(step_on_cpu(depth, depth, 64, 64));
  report("depth", points, 1.1);
}

// Four rows per device.
void devices() {
  std::vector<Point> points;
  for (const int count : {1, 2, 4, 8, 16, 32, 64}) {
    const SimulatedDevices simulated({.count = count, .memory_bytes = std::size_t(64) << 20});
    DataParallel net(Layers(2, 16));
    optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
    const Tensor x = randn({4 * count, 16}).to(net.device()), y = randn({4 * count, 16}).to(net.device());
    points.push_back(measured(count, [&] {
      step(net, optimizer, x, y);
      for (const Device& device : try_all_gpus()) synchronize(device);
    }));
  }
  report("devices", points, 1.2);
}

void operations() {
  const NoGrad guard;
  const SimulatedDevices simulated({.count = 1});
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    const Tensor x = randn({8}).to(device), y = randn({8}).to(device);
    std::vector<Point> points;
    for (std::int64_t count = 16; count <= 16384; count *= 4)
      points.push_back(measured(count, [&] {
        Tensor sum = x;
        for (std::int64_t i = 0; i < count; ++i) sum = sum + y;
        synchronize(device);
      }));
    report(std::string("operations/") + (device.is_cpu() ? "cpu" : "simulated"), points, 1.05);
  }
}

// Runs the steps in ten parts. Compares the median time of the last three parts with that of parts 2 to 4, and the
// memory at the end with that after the first part.
template <class Step>
void many_steps(const std::string& name, Step step) {
  const auto part = long(bench::from_environment("BENCH_STEPS", 100000) / 10);
  std::vector<double> us;
  double early_mb = 0;
  for (int i = 0; i < 10; ++i) {
    us.push_back(bench::time_calls(part, step));
    if (i == 0) early_mb = bench::memory_mb("VmRSS");
  }
  const double grown_mb = bench::memory_mb("VmRSS") - early_mb;
  const double ratio = bench::median({us[7], us[8], us[9]}) / bench::median({us[1], us[2], us[3]});
  std::printf(
      "{\"name\": \"growth/steps/%s\", \"steps\": %ld, \"us\": %.2f, \"late_over_early\": %.3f, \"grown_mb\": %.2f}\n",
      name.c_str(), 10 * part, bench::median(us), ratio, grown_mb);
  std::fflush(stdout);
  check("the time of a late step over an early one (" + name + ")", ratio, 1.15);
  check("the memory in MB that came with the steps (" + name + ")", grown_mb, 1);
}

void steps() {
  {
    nn::Linear net(5, 2);
    optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
    const Tensor x = randn({30, 5}), y = randn({30, 2});
    many_steps("cpu", [&] { step(net, optimizer, x, y); });
  }
  const SimulatedDevices simulated({.count = 2});
  DataParallel net(nn::Linear(5, 2));
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  const Tensor x = randn({30, 5}).to(net.device()), y = randn({30, 2}).to(net.device());
  many_steps("two_devices", [&] { step(net, optimizer, x, y); });
}

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(int(bench::from_environment("BENCH_THREADS", 1)));
  manual_seed(0);
  const int status = bench::run_case(argc, argv,
                                     {{"batch", batch},
                                      {"width", width},
                                      {"depth", depth},
                                      {"devices", devices},
                                      {"operations", operations},
                                      {"steps", steps}});
  return status == 0 && !within_limits ? 1 : status;
}
