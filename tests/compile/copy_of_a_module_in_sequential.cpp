// refused: use of deleted function 'lockstep::nn::AnyModule::AnyModule(UseCopyInstead&)
// refused: call to deleted constructor of 'lockstep::nn::AnyModule'
// refused: call to deleted constructor of 'AnyModule'
#include <lockstep/lockstep.h>

void freeze(lockstep::nn::Sequential& list) {
  auto first = list[0];
  first.zero_grad();
}
