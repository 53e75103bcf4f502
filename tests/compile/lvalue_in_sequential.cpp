// refused: this would copy a module: pass std::move(module), or a copy by lockstep::copy(module)
#include <lockstep/lockstep.h>

lockstep::nn::Sequential made_of(lockstep::nn::Linear& body) {
  return lockstep::nn::Sequential(body, lockstep::nn::ReLU());
}
