// The sequences of random numbers: the process's, guarded by a mutex, and a thread's own within a GeneratorGuard.
#include <utility>

#include <lockstep/tensor/random.h>

#include "core/context.h"
#include "core/ranked_mutex.h"

namespace lockstep {
namespace {

RankedMutex<LockRank::generator> process_mutex;
GeneratorState process_generator;  // guarded by process_mutex

GeneratorState take(GeneratorState& generator, std::uint64_t blocks) noexcept {
  const GeneratorState start = generator;
  generator.offset += blocks;
  return start;
}

}  // namespace

void manual_seed(std::uint64_t seed) {
  const std::lock_guard lock(process_mutex);
  process_generator = {.seed = seed};
}

GeneratorState draw(std::uint64_t blocks) {
  if (GeneratorState* const own = context().generator) return take(*own, blocks);
  const std::lock_guard lock(process_mutex);
  return take(process_generator, blocks);
}

GeneratorState current_generator() { return draw(0); }

void set_generator(const GeneratorState& generator) {
  if (GeneratorState* const own = context().generator) {
    *own = generator;
    return;
  }
  const std::lock_guard lock(process_mutex);
  process_generator = generator;
}

GeneratorGuard::GeneratorGuard(GeneratorState& generator) noexcept
    : outer_(std::exchange(context().generator, &generator)) {}
GeneratorGuard::~GeneratorGuard() { context().generator = outer_; }

}  // namespace lockstep
