// refused: use of deleted function 'lockstep::nn::Parameter::Parameter(UseCopyInstead&)
#include <lockstep/nn/layers.h>

void reset(lockstep::nn::Linear& layer) {
  auto weight = layer.weight;
  weight.zero_();
}
