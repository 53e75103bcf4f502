// refused: use of deleted function 'lockstep::nn::Parameter::Parameter(UseCopyInstead&)
// refused: call to deleted constructor of 'lockstep::nn::Parameter'
// refused: call to deleted constructor of 'Parameter'
#include <lockstep/lockstep.h>

void reset(lockstep::nn::Linear& layer) {
  auto weight = layer.weight;
  weight.zero_();
}
