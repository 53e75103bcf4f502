// Logs the norms of 1000 products of 100x100 matrices: each read on the host at once, or all kept on the device and
// read once at the end. Each read waits for the device, which then idles until the host enqueues more work.
//   logging_on_device [--simulate N]
#include <lockstep/lockstep.h>

#include <chrono>
#include <iostream>

#include "arguments.h"

using namespace lockstep;

template <class Work>
double milliseconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int main(int argc, char** argv) {
  try {
    const auto simulated = simulated_if_asked(argc, argv);
    const Tensor a = randn({100, 100}, {.device = try_gpu()}), b = randn({100, 100}, {.device = try_gpu()});
    double sum_of_reads = 0, sum_on_device = 0;
    const auto each = [&] {
      sum_of_reads = 0;
      for (int i = 0; i < 1000; ++i) sum_of_reads += norm(mm(a, b)).item<float>();
    };
    const auto kept = [&] {
      Tensor log = zeros({}, {.device = a.device()});
      for (int i = 0; i < 1000; ++i) log.add_(norm(mm(a, b)));
      sum_on_device = log.item<float>();
    };
    each();
    kept();
    print("on {}: read each time {} ms; kept on the device {} ms\n", a.device(), milliseconds(each),
          milliseconds(kept));
    print("sums of the norms: {} and {}\n", sum_of_reads, sum_on_device);
  } catch (const std::exception& error) {
    std::cerr << "logging_on_device: " << error.what() << '\n';
    return 1;
  }
}
