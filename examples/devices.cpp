// Devices, tensors on devices, and copies between them.
//   devices [--simulate N]
#include <lockstep/lockstep.h>

#include <iostream>

#include "arguments.h"

using namespace lockstep;

int main(int argc, char** argv) try {
  const auto simulated = simulated_if_asked(argc, argv);

  std::cout << Device("cpu") << ' ' << Device("cuda") << ' ' << Device("cuda:1") << '\n';
  std::cout << cuda::device_count() << " GPUs, available: " << std::boolalpha << cuda::is_available() << '\n';
  std::cout << "try_gpu(10) is " << try_gpu(10) << "; try_all_gpus():";
  for (const Device& device : try_all_gpus()) std::cout << ' ' << device;
  std::cout << "\n\n";

  const Tensor x = tensor({1, 2, 3});
  std::cout << "x = " << x << ", " << x.dtype() << " on " << x.device() << '\n';
  const Tensor X = ones({2, 3}, {.device = try_gpu()});
  const Tensor Y = rand({2, 3}, {.device = try_gpu(1)});
  std::cout << "X = " << X << "\nY = " << Y << '\n';

  if (cuda::device_count() > 1) {
    try {
      X + Y;
    } catch (const DeviceMismatch& error) {
      std::cout << "X + Y: " << error.what() << '\n';
    }
    const Tensor Z = X.cuda(1);
    std::cout << "Y + Z = " << Y + Z << '\n';
    std::cout << "Z.cuda(1) is Z: " << Z.cuda(1).is_same(Z) << '\n';
  }
  std::cout << "x in float64: " << x.to("cpu", kFloat64) << '\n';
  std::cout << "ones like X: " << ones_like(X, {.dtype = kFloat64}) << "\n\n";

  nn::Sequential net(nn::Linear(3, 1));
  net.to(try_gpu());
  std::cout << "net(X) = " << net(X) << '\n';
  std::cout << "its weight is on " << net[0].as<nn::Linear>().weight.device() << '\n';
} catch (const std::exception& error) {
  std::cerr << "devices: " << error.what() << '\n';
  return 1;
}
