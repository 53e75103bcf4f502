// Job attributes: names and values that each process sends to the others when it joins. Some must be equal in all
// processes. Pure functions.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace lockstep::mpi {

/// The attributes of a process: name -> value. The names are the constants below, and the names of environment
/// variables of launchers and of Lockstep.
using Attributes = std::map<std::string, std::string>;

inline constexpr const char* kVersion = "the version of Lockstep";
inline constexpr const char* kHost = "host name";
inline constexpr const char* kPidNamespace = "PID namespace";
inline constexpr const char* kProcessId = "process ID";
inline constexpr const char* kDatagramAddress = "address for datagrams";
inline constexpr const char* kTimeLimit = "the time limit in ms";

Attributes local_attributes(std::chrono::milliseconds time_limit);

std::string packed(const Attributes& attributes);
Attributes unpacked(const std::string& bytes);

/// Throws InvalidArgument if an attribute differs that all processes must have in common. The message names the
/// attribute, both values and the two processes.
void refuse_differences(const std::vector<Attributes>& by_rank);

}  // namespace lockstep::mpi
