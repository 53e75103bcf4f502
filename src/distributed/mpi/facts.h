// Facts on which the processes of a job must agree, exchanged when they join. Pure functions.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace lockstep::mpi {

/// By name: the names below, and environment variables of launchers and of Lockstep.
using Facts = std::map<std::string, std::string>;

inline constexpr const char* kVersion = "the version of Lockstep";
inline constexpr const char* kHost = "the name of the host";
inline constexpr const char* kKernel = "where numbers of processes are alike";
inline constexpr const char* kProcess = "the number of the process";
inline constexpr const char* kDatagrams = "where it takes datagrams";
inline constexpr const char* kTimeLimit = "the time limit in ms";

Facts own_facts(std::chrono::milliseconds time_limit);

std::string packed(const Facts& facts);
Facts unpacked(const std::string& bytes);

/// Throws InvalidArgument that names a difference and the two processes.
void refuse_differences(const std::vector<Facts>& by_rank);

}  // namespace lockstep::mpi
