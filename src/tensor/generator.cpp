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

// Returns f(the process's sequence, or what stands in for it on this thread).
template <class F>
auto with_process_sequence(const F& f) {
  if (GeneratorState* const other = context().process_sequence) return f(*other);
  const std::lock_guard lock(process_mutex);
  return f(process_generator);
}

}  // namespace

void manual_seed(std::uint64_t seed) {
  with_process_sequence([&](GeneratorState& sequence) { sequence = {.seed = seed}; });
}

GeneratorState draw(std::uint64_t blocks) {
  if (GeneratorState* const own = context().generator) return take(*own, blocks);
  return with_process_sequence([&](GeneratorState& sequence) { return take(sequence, blocks); });
}

GeneratorState current_generator() { return draw(0); }

void set_generator(const GeneratorState& generator) {
  if (GeneratorState* const own = context().generator) {
    *own = generator;
    return;
  }
  with_process_sequence([&](GeneratorState& sequence) { sequence = generator; });
}

GeneratorGuard::GeneratorGuard(GeneratorState& generator) noexcept
    : outer_(std::exchange(context().generator, &generator)) {}
GeneratorGuard::~GeneratorGuard() { context().generator = outer_; }

}  // namespace lockstep
