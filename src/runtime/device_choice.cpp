#include "runtime/device_choice.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/runtime/simulation.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/sim/sim_backend.h"
#include "core/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxDeviceCount = 64;

std::optional<int> number(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

// Parses sizes such as 512MiB or 8GiB.
std::optional<std::size_t> size_in_bytes(std::string_view size) {
  const int shift = size.ends_with("GiB") ? 30 : size.ends_with("MiB") ? 20 : 0;
  if (!shift) return std::nullopt;
  const std::optional<int> count = number(size.substr(0, size.size() - 3));
  if (!count || *count < 1) return std::nullopt;
  return std::size_t(*count) << shift;
}

[[noreturn]] void refuse(std::string_view choice) {
  throw InvalidArgument(
      text("[LOCKSTEP_DEVICES] expected cpu, sim:N with N from 1 to ", kMaxDeviceCount,
           ", sim:N,8GiB with the memory of each GPU (MiB or GiB), cuda, or cuda:0,1 with the numbers "
           "of cards, got \"",
           choice, "\""));
}

std::shared_ptr<Backend> simulated(std::string_view choice) {
  const std::size_t comma = std::min(choice.find(','), choice.size());
  const std::optional<int> count = number(choice.substr(4, comma - 4));
  if (!count || *count < 1 || std::size_t(*count) > kMaxDeviceCount) refuse(choice);
  SimulationOptions options{.count = *count};
  if (comma < choice.size()) {
    const std::optional<std::size_t> bytes = size_in_bytes(choice.substr(comma + 1));
    if (!bytes) refuse(choice);
    options.memory_bytes = *bytes;
  }
  return make_sim_backend(options);
}

std::size_t option(const char* variable, std::size_t otherwise) {
  const char* const value = std::getenv(variable);
  if (!value) return otherwise;
  const std::optional<int> parsed = number(value);
  if (!parsed) throw InvalidArgument(text('[', variable, "] expected a number, got \"", value, '"'));
  return std::size_t(*parsed);
}

CudaOptions options_for(std::vector<int> cards) {
  return {.cards = std::move(cards),
          .arena_bytes = option("LOCKSTEP_CUDA_ARENA_MIB", 0) << 20,
          .tf32 = option("LOCKSTEP_TF32", 0) != 0,
          .deterministic = option("LOCKSTEP_DETERMINISTIC", 1) != 0};
}

// Returns the cards listed after "cuda:"; an empty vector if there is no list.
std::vector<int> listed_cards(std::string_view choice) {
  std::vector<int> cards;
  if (choice.empty() || choice == "cuda") return cards;
  if (!choice.starts_with("cuda:")) refuse(choice);
  for (std::size_t begin = 5; begin <= choice.size();) {
    const std::size_t end = std::min(choice.find(',', begin), choice.size());
    const std::optional<int> card = number(choice.substr(begin, end - begin));
    if (!card || cards.size() == kMaxDeviceCount) refuse(choice);
    cards.push_back(*card);
    begin = end + 1;
  }
  return cards;
}

}  // namespace

std::shared_ptr<Backend> choose_backend(std::string_view choice) {
  if (choice == "cpu" || choice == "none") return nullptr;
  if (choice.starts_with("sim:")) return simulated(choice);
  std::vector<int> cards = listed_cards(choice);
  const CudaCards found = find_cuda_cards();
  if (found.count == 0) {
    if (choice.empty()) return nullptr;
    throw BackendError("cudaGetDeviceCount", found.code, std::string(choice),
                       text("LOCKSTEP_DEVICES asks for GPUs, but there are none: ", found.text));
  }
  if (cards.empty()) {
    cards.resize(std::size_t(std::min<int>(found.count, kMaxDeviceCount)));
    std::iota(cards.begin(), cards.end(), 0);
  }
  return make_cuda_backend(options_for(std::move(cards)));
}

}  // namespace lockstep
