// CUDA's checks and copies before a launch runs.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/emulation/emulator.h"
#include "cuda/fake/fake_cuda.h"

namespace lockstep::emulation {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const KernelHandle& kernel, void** arguments) {
  fake::use_kernel(kernel);
  const auto within = [](dim3 size, unsigned x, unsigned y, unsigned z) {
    return size.x > 0 && size.y > 0 && size.z > 0 && size.x <= x && size.y <= y && size.z <= z;
  };
  const dim3 blocks = config->gridDim, threads = config->blockDim;
  // CUDA C++ Programming Guide, technical specifications per compute capability.
  if (!within(blocks, (1u << 31) - 1, 65535, 65535) || !within(threads, 1024, 1024, 64) ||
      std::uint64_t(threads.x) * threads.y * threads.z > 1024 || config->dynamicSmemBytes > (227 << 10))
    return cudaErrorInvalidConfiguration;
  if (settings().record_only) {
    settings().launches.push_back({blocks, threads, config->dynamicSmemBytes});
    return cudaSuccess;
  }
  const auto padded = [](std::size_t size) { return (size + 15) / 16 * 16; };  // aligns every parameter
  std::size_t bytes = 0;
  for (const std::size_t size : kernel.sizes()) bytes += padded(size);
  const std::shared_ptr<std::byte[]> copies(new std::byte[bytes]);
  std::vector<void*> places;
  std::byte* place = copies.get();
  for (const std::size_t size : kernel.sizes()) {
    std::memcpy(place, arguments[places.size()], size);
    places.push_back(place);
    place += padded(size);
  }
  return fake::enqueue(config->stream, [blocks, threads, kernel, copies, places] {
    run_grid(blocks, threads, [&] { kernel(places.data()); });
  });
}

}  // namespace lockstep::emulation
