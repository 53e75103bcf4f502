#include "distributed/mpi/hooks.h"

#include <dlfcn.h>
#include <mpi.h>

#include <cstdarg>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace lockstep::mpi {
namespace {

// Declarations from opal/util/show_help.h and orte/mca/ess/ess.h, identical in 4.0.0 and 4.1.8. Open MPI 5 has no orte.
using ShowHelp = int (*)(const char* file, const char* topic, bool header, ...);
using ShowHelpOfList = int (*)(const char* file, const char* topic, bool header, va_list arguments);
struct EssModule {
  int (*init)();
  int (*finalize)();
  void (*abort)(int status, bool report);
  int (*ft_event)(int state);
};

struct OpenMpi {
  EssModule* ess = nullptr;
  ShowHelp* show_help = nullptr;
  ShowHelpOfList* show_help_of_list = nullptr;
};

thread_local const Hooks::Functions* hooked = nullptr;
EssModule ess_before = {};
ShowHelp show_help_before = nullptr;
ShowHelpOfList* show_help_here = nullptr;  // writes to this process's standard error

// Also runs for a program's own MPI_Abort.
void abort_or_hook(int status, bool report) {
  if (const auto* const functions = std::exchange(hooked, nullptr)) functions->abort();
  ess_before.abort(status, report);
  std::_Exit(EXIT_FAILURE);
}

bool says_that_a_peer_may_have_died(std::string_view file, std::string_view topic) {
  return file == "help-mpi-btl-tcp.txt" &&
         (topic == "peer hung up" || topic == "client connect fail" || topic == "client handshake fail");
}

int show_help_or_hook(const char* file, const char* topic, bool header, ...) {
  if (hooked && says_that_a_peer_may_have_died(file, topic)) hooked->lost_connection();
  va_list arguments;
  va_start(arguments, header);
  const int result = (*show_help_here)(file, topic, header, arguments);
  va_end(arguments);
  return result;
}

// Finds all symbols, or returns nothing.
OpenMpi find_open_mpi() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);
  if (!std::string_view(version).starts_with("Open MPI v4.")) return {};
  const OpenMpi found = {static_cast<EssModule*>(::dlsym(RTLD_DEFAULT, "orte_ess")),
                         static_cast<ShowHelp*>(::dlsym(RTLD_DEFAULT, "opal_show_help")),
                         static_cast<ShowHelpOfList*>(::dlsym(RTLD_DEFAULT, "opal_show_vhelp"))};
  const bool is_all = found.ess && found.ess->abort && found.show_help && found.show_help_of_list;
  return is_all ? found : OpenMpi();
}

}  // namespace

Hooks::Hooks(Functions functions) : functions_(std::move(functions)) {
  const OpenMpi mpi = find_open_mpi();
  if (!mpi.ess) return;
  show_help_here = mpi.show_help_of_list;
  ess_before = *mpi.ess;
  show_help_before = *mpi.show_help;
  mpi.ess->abort = abort_or_hook;
  *mpi.show_help = show_help_or_hook;
  hooked = &functions_;
}

Hooks::~Hooks() {
  hooked = nullptr;
  const OpenMpi mpi = find_open_mpi();
  if (!mpi.ess || mpi.ess->abort != abort_or_hook) return;
  mpi.ess->abort = ess_before.abort;
  *mpi.show_help = show_help_before;
}

}  // namespace lockstep::mpi
