// The fake CUDA runtime's cards, and its answers about cards and kernels.
#include <cstring>
#include <utility>

#include "cuda/fake/fake_work.h"

namespace lockstep::fake {
namespace {

std::set<std::pair<int, const void*>> loaded_kernels;  // by card

}  // namespace

int& current_card() {
  thread_local int card = 0;
  return card;
}

Machine& machine() {
  static Machine machine;
  return machine;
}

std::unique_lock<std::recursive_mutex> lock() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

void complain(const std::string& what) {
  const auto held = lock();
  if (machine().complaint.empty()) machine().complaint = what;
}

void may_wait_for_cards(const char* api) {
  const auto held = lock();
  if (machine().rank_waits) complain(std::string(api) + " while a rank waits for one that is not launched");
}

void use_kernel(const void* kernel) {
  const auto held = lock();
  if (loaded_kernels.emplace(current_card(), kernel).second) may_wait_for_cards("loading a kernel");
}

cudaError_t state(int card) { return machine().trapped.contains(card) ? cudaErrorLaunchFailure : cudaSuccess; }

void use_card() {
  const auto held = lock();
  machine().contexts.insert(current_card());
}

}  // namespace lockstep::fake

using namespace lockstep::fake;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (machine().driver_version != 0) return cudaErrorInsufficientDriver;
  *count = machine().cards;
  return machine().cards > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Fake card");
  properties->totalGlobalMem = machine().card_bytes;
  properties->major = machine().capability;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* card) {
  *card = current_card();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int card) {
  if (card < 0 || card >= machine().cards) return cudaErrorInvalidDevice;
  current_card() = card;
  use_card();
  const auto held = lock();
  ++machine().card_switches;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure && !machine().trapped.empty() ? machine().trapped.begin()->second.c_str()
                                                                       : "a fake error";
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = machine().driver_version, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = machine().peers, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  may_wait_for_cards("cudaDeviceEnablePeerAccess");
  if (machine().peers_full) return cudaErrorTooManyPeers;
  return machine().peers ? cudaSuccess : cudaErrorPeerAccessUnsupported;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void* kernel) {
  use_card();
  use_kernel(kernel);
  return cudaSuccess;
}

}  // extern "C"
