// refused: this would copy a module: pass std::move(module), or a copy by lockstep::copy(module)
#include <lockstep/lockstep.h>

void append(lockstep::nn::Sequential& list, lockstep::nn::Sequential& part) { list.push_back(part); }
