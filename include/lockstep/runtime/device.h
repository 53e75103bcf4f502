// Devices by name, and how many there are. Values; safe to use from any thread.
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

/// What kinds of devices have names.
enum class DeviceType : std::int8_t { cpu, cuda };
inline constexpr DeviceType kCPU = DeviceType::cpu;    ///< As libtorch names it: x.to(kCPU).
inline constexpr DeviceType kCUDA = DeviceType::cuda;  ///< x.to(kCUDA); Device(kCUDA, 1).

/// The CPU, or one GPU (real or simulated).
class LOCKSTEP_API Device {
 public:
  Device() = default;  ///< The CPU.
  /// "cpu", "cuda" (the same as "cuda:0") or "cuda:N". Throws InvalidArgument for anything else;
  /// a GPU that is not there is reported when it is first used.
  Device(std::string_view name);
  Device(const char* name);
  Device(const std::string& name) : Device(std::string_view(name)) {}
  /// A GPU is cuda:0, or the one of that index. Throws InvalidArgument for a negative index, and for one of the CPU.
  Device(DeviceType type, int index = 0);
  Device(int) = delete;  ///< Device::cuda(0), or "cuda:0": the literal 0 would be a null name.
  /// Throws InvalidArgument for a negative index.
  static Device cuda(int index);

  DeviceType type() const noexcept { return type_; }  ///< The CPU or a GPU.
  /// Whether it is the CPU.
  bool is_cpu() const noexcept { return type_ == DeviceType::cpu; }
  /// Whether it is a GPU.
  bool is_cuda() const noexcept { return type_ == DeviceType::cuda; }
  int index() const noexcept { return index_; }  ///< Of a GPU: from 0. Of the CPU: 0.
  std::string name() const;

  auto operator<=>(const Device&) const = default;

 private:
  DeviceType type_ = DeviceType::cpu;
  std::int8_t index_ = 0;
};

/// Prints cpu or cuda:1.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Device& device);

/// What is known of a device.
struct DeviceProperties {
  std::string name;              ///< The model, as its backend calls it.
  std::size_t memory_bytes = 0;  ///< All of its memory.
  std::string memory_setting;    ///< What sets that, where something does: for messages.
};

/// Throws InvalidArgument if there is no such device.
LOCKSTEP_API DeviceProperties properties(Device device);

namespace cuda {
/// How many GPUs are visible. One that was lost is not; the others keep their names. So after a loss the names are not
/// those from cuda:0 to device_count() - 1: try_all_gpus() gives them.
LOCKSTEP_API int device_count();
LOCKSTEP_API bool is_available();  ///< Whether any is visible.
}  // namespace cuda

/// cuda:index, or the CPU when there is no such GPU, or it was lost.
LOCKSTEP_API Device try_gpu(int index = 0);
/// Every visible GPU, or {cpu} when there is none.
LOCKSTEP_API std::vector<Device> try_all_gpus();

}  // namespace lockstep
