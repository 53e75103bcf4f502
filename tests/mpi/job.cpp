#include "mpi/job.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "core/text.h"

namespace lockstep::testing {

void say(const World& world, const std::string& line) {
  const std::string all = text('[', world.rank().value(), " of ", world.size(), "] ", line, '\n');
  if (::write(STDOUT_FILENO, all.data(), all.size()) < 0) std::perror("write");
}

void write_errors_to_a_file() {
  const char* const folder = std::getenv("JOB_ERRORS");
  if (!folder) return;
  const int file = ::open(lockstep::text(folder, '/', ::getpid()).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0 || ::dup2(file, STDERR_FILENO) < 0) std::perror("JOB_ERRORS");
}

void require(bool is_so, std::string_view what) {
  if (!is_so) throw std::runtime_error("not so: " + std::string(what));
}

}  // namespace lockstep::testing

int main(int argc, char** argv) {
  using namespace lockstep::testing;
  write_errors_to_a_file();
  const std::string name = argc > 1 ? argv[1] : "";
  Arguments arguments;
  for (int a = 2; a < argc; ++a) arguments.emplace_back(argv[a]);
  for (const auto* scenarios : {&world_scenarios(), &failure_scenarios(), &training_scenarios()})
    if (const auto found = scenarios->find(name); found != scenarios->end()) try {
        found->second(arguments);
        return 0;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 3;
      }
  std::fprintf(stderr, "no scenario \"%s\"\n", name.c_str());
  return 2;
}
