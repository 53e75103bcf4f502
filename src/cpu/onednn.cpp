#include "cpu/onednn.h"

#include <cstdlib>

#include <lockstep/core/instruction_set.h>

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
// Functions of the OpenMP runtime that oneDNN uses. They are declared here, without <omp.h>, because the compiler may
// use another OpenMP runtime.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int threads);
#else
static int omp_get_max_threads() { return 1; }
static void omp_set_num_threads(int) {}
#endif

namespace lockstep::host {
namespace {

// Applies LOCKSTEP_CPU to oneDNN, which otherwise uses all instruction sets of the processor.
void limit_instructions() {
  const char* const choice = std::getenv("LOCKSTEP_CPU");
  if (!choice || !*choice) return;
  if (instruction_set() == InstructionSet::plain) dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
  if (instruction_set() == InstructionSet::avx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
}

}  // namespace

OneOpenMpThread::OneOpenMpThread() noexcept : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneOpenMpThread::~OneOpenMpThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

// Never destroyed: threads may compute until the process ends.
const dnnl::engine& cpu_engine() {
  static const auto& engine = *[] {
    limit_instructions();
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

}  // namespace lockstep::host
