// refused: use of deleted function 'lockstep::nn::AnyModule::AnyModule(UseCopyInstead&)
#include <lockstep/nn/sequential.h>

void freeze(lockstep::nn::Sequential& list) {
  auto first = list[0];
  first.zero_grad();
}
