// refused: a module is not copied unasked: give it with std::move(module), or a copy with lockstep::copy(module)
#include <lockstep/lockstep.h>

lockstep::nn::Sequential made_of(lockstep::nn::Linear& body) {
  return lockstep::nn::Sequential(body, lockstep::nn::ReLU());
}
