// Device: the name of a CPU or GPU, and how many there are. Values; safe to use from any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/core/export.h>

namespace lockstep {

/// The kinds of devices.
enum class DeviceType : std::int8_t { cpu, cuda };
inline constexpr DeviceType kCPU = DeviceType::cpu;    ///< libtorch's name: x.to(kCPU).
inline constexpr DeviceType kCUDA = DeviceType::cuda;  ///< x.to(kCUDA); Device(kCUDA, 1).

/// The CPU, or one GPU (real or simulated).
class LOCKSTEP_API Device {
 public:
  Device() = default;  ///< The CPU.
  /// "cpu", "cuda" (the same as "cuda:0") or "cuda:N". Throws InvalidArgument for any other name. If the GPU does not
  /// exist, its first use throws.
  Device(std::string_view name);
  Device(const char* name);
  Device(const std::string& name) : Device(std::string_view(name)) {}
  /// The CPU, or cuda:index. Throws InvalidArgument for a negative index, and for a nonzero index of the CPU.
  Device(DeviceType type, int index = 0);
  Device(int) = delete;  ///< Write Device::cuda(0): the literal 0 would be a null name.
  /// Throws InvalidArgument for a negative index.
  static Device cuda(int index);

  DeviceType type() const noexcept { return type_; }  ///< The CPU or a GPU.
  /// True for the CPU.
  bool is_cpu() const noexcept { return type_ == DeviceType::cpu; }
  /// True for a GPU, real or simulated.
  bool is_cuda() const noexcept { return type_ == DeviceType::cuda; }
  int index() const noexcept { return index_; }  ///< A GPU's index, from 0; 0 for the CPU.
  std::string name() const;

  auto operator<=>(const Device&) const = default;

 private:
  DeviceType type_ = DeviceType::cpu;
  std::int8_t index_ = 0;
};

/// Prints cpu or cuda:1.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Device& device);

/// Properties of a device.
struct DeviceProperties {
  std::string name;              ///< The model, as its backend calls it.
  std::size_t memory_bytes = 0;  ///< The size of its memory.
  std::string memory_setting;    ///< For out-of-memory errors: how to get more memory; empty if it cannot be set.
};

/// Throws InvalidArgument if there is no such device.
LOCKSTEP_API DeviceProperties properties(Device device);

namespace cuda {
/// The number of visible GPUs. A lost GPU is not visible, and the other GPUs keep their indices, so indices may have
/// gaps. try_all_gpus() returns the visible devices.
LOCKSTEP_API int device_count();
LOCKSTEP_API bool is_available();  ///< True if any GPU is visible.
}  // namespace cuda

/// cuda:index, or the CPU if there is no such GPU or it was lost.
LOCKSTEP_API Device try_gpu(int index = 0);
/// All visible GPUs, or {cpu} if there is none.
LOCKSTEP_API std::vector<Device> try_all_gpus();

}  // namespace lockstep
