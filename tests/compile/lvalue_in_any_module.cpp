// refused: a module is not copied unasked: give it with std::move(module), or a copy with lockstep::copy(module)
#include <lockstep/lockstep.h>

void append(lockstep::nn::Sequential& list, lockstep::nn::Sequential& part) { list.push_back(part); }
