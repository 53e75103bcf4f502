#include "distributed/mpi/launcher.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::mpi {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
  bool starts_mpi;          // MPI_Init finds the other processes through this launcher
  bool describes_this_job;  // if false, its variables may describe an allocation of which mpirun uses only a part
  const char* advice;       // advice for the user
};
constexpr std::array kLaunchers{
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true, true,
             "Start with the mpirun of the MPI library that the program is linked with"},
    Launcher{"PMIX_RANK", "", true, true, "Start with the mpirun of the MPI library that the program is linked with"},
    Launcher{
        "PMI_RANK", "PMI_SIZE", true, false,
        "Start with the mpirun of the MPI library that the program is linked with; under Slurm, with srun --mpi=pmix"},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", false, false, "Start with srun --mpi=pmix, or with mpirun"},
    Launcher{"SLURM_PROCID", "SLURM_NTASKS", false, false,
             "Start with srun --mpi=pmix, or with mpirun; for a single process in an allocation, use srun -n 1"},
    Launcher{"RANK", "WORLD_SIZE", false, true, "Start with mpirun or srun --mpi=pmix, without RANK and WORLD_SIZE"},
};

const std::string* find(const Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : &found->second;
}

int number(const char* variable, const std::string& value) {
  int parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < 0)
    throw InvalidArgument(text("[mpi::join] expected ", variable, " to be a number, got \"", value, '"'));
  return parsed;
}

void refuse_unless(int found, const char* variable, const Launcher& launcher, const Attributes& attributes) {
  const std::string* const value = find(attributes, variable);
  if (!value) return;
  const int said = number(variable, *value);
  if (said == found || (!launcher.describes_this_job && (found > 1 || said == 1))) return;
  throw InvalidArgument(text("[mpi::join] expected ", variable, " to be ", found, ", as MPI has found it, got ", said,
                             " on ", attributes.at(kHost), ". ", launcher.advice));
}

}  // namespace

bool is_of_launcher(std::string_view variable) {
  return std::ranges::any_of(kLaunchers,
                             [variable](const Launcher& l) { return variable == l.rank || variable == l.size; });
}

bool is_launched(const Attributes& own) {
  const auto starts_mpi = [&own](const Launcher& l) {
    return l.starts_mpi && (own.contains(l.rank) || own.contains(l.size));
  };
  if (std::ranges::any_of(kLaunchers, starts_mpi)) return true;
  for (const Launcher& launcher : kLaunchers) refuse_unless(1, launcher.size, launcher, own);
  return false;
}

void refuse_other_processes(const std::vector<Attributes>& by_rank) {
  for (std::size_t process = 0; process < by_rank.size(); ++process)
    for (const Launcher& launcher : kLaunchers) {
      refuse_unless(int(by_rank.size()), launcher.size, launcher, by_rank[process]);
      if (launcher.describes_this_job) refuse_unless(int(process), launcher.rank, launcher, by_rank[process]);
    }
}

}  // namespace lockstep::mpi
