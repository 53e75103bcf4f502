// Times work on two devices, one after the other with a wait in between, and at once. (Simulated devices share the
// CPU's cores.)
//   two_devices [--simulate N]
#include <lockstep/lockstep.h>

#include <chrono>
#include <iostream>

#include "arguments.h"

using namespace lockstep;

void products(const Tensor& x) {
  for (int i = 0; i < 50; ++i) mm(x, x);
}

template <class Work>
double milliseconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int main(int argc, char** argv) {
  try {
    const auto simulated = simulated_if_asked(argc, argv);
    const Tensor a = rand({400, 400}, {.device = try_gpu(0)}), b = rand({400, 400}, {.device = try_gpu(1)});
    const auto wait = [&] {
      synchronize(a.device());
      synchronize(b.device());
    };
    products(a);
    products(b);
    wait();
    const double in_turn = milliseconds([&] {
      products(a);
      synchronize(a.device());
      products(b);
      synchronize(b.device());
    });
    const double at_once = milliseconds([&] {
      products(a);
      products(b);
      wait();
    });
    print("{} then {}: {} ms; both at once: {} ms\n", a.device(), b.device(), in_turn, at_once);
  } catch (const std::exception& error) {
    std::cerr << "two_devices: " << error.what() << '\n';
    return 1;
  }
}
