#include "distributed/mpi/attributes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "distributed/mpi/launcher.h"

namespace lockstep::mpi {
namespace {

std::string host_name() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string kernel() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::array<char, 64> processes = {};
  return ::readlink("/proc/self/ns/pid", processes.data(), processes.size() - 1) > 0 ? boot + processes.data() : boot;
}

std::string quoted(const std::vector<Attributes>& by_rank, std::size_t process, const std::string& name) {
  const Attributes& attributes = by_rank[process];
  const auto found = attributes.find(name);
  return text(found == attributes.end() ? "none" : "\"" + found->second + "\"", " in process ", process, " on ",
              attributes.at(kHost));
}

// LOCKSTEP_DEVICES is compared without the list of cards: processes of one host may drive different cards.
std::optional<std::string> compared(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  return name == "LOCKSTEP_DEVICES" ? found->second.substr(0, found->second.find(':')) : found->second;
}

void refuse_difference(const std::vector<Attributes>& by_rank, const std::string& name, const std::string& what_to_do) {
  for (std::size_t p = 1; p < by_rank.size(); ++p)
    if (compared(by_rank[p], name) != compared(by_rank[0], name))
      throw InvalidArgument(text("[mpi::join] ", name, " differs between processes: ", quoted(by_rank, 0, name), ", ",
                                 quoted(by_rank, p, name), ". ", what_to_do));
}

}  // namespace

Attributes local_attributes(std::chrono::milliseconds time_limit) {
  Attributes attributes = {{kVersion, LOCKSTEP_BUILD},
                           {kHost, host_name()},
                           {kPidNamespace, kernel()},
                           {kProcessId, text(::getpid())},
                           {kTimeLimit, text(time_limit.count())}};
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view both = *entry;
    const std::string name(both.substr(0, both.find('=')));
    if (name.starts_with("LOCKSTEP_") || is_of_launcher(name)) attributes[name] = both.substr(name.size() + 1);
  }
  return attributes;
}

std::string packed(const Attributes& attributes) {
  std::string bytes;
  for (const auto& [name, value] : attributes) bytes.append(name).append(1, '\0').append(value).append(1, '\0');
  return bytes;
}

Attributes unpacked(const std::string& bytes) {
  Attributes attributes;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::string name = bytes.c_str() + at;
    at = std::min(at + name.size() + 1, bytes.size());
    const std::string value = bytes.c_str() + at;
    at += value.size() + 1;
    attributes[name] = value;
  }
  return attributes;
}

void refuse_differences(const std::vector<Attributes>& by_rank) {
  refuse_difference(by_rank, kVersion, "Start the same program, or builds of the same version, in all processes");
  refuse_difference(by_rank, kTimeLimit,
                    "Set the same JoinOptions::time_limit or LOCKSTEP_TIME_LIMIT in all processes");
  std::set<std::string> settings;
  for (const Attributes& attributes : by_rank)
    for (const auto& [name, value] : attributes)
      if (name.starts_with("LOCKSTEP_")) settings.insert(name);
  for (const std::string& name : settings)
    refuse_difference(by_rank, name, "Open MPI's mpirun passes it to all hosts with -x " + name);
}

}  // namespace lockstep::mpi
