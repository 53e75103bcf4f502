// refused: use of deleted function 'lockstep::nn::Linear::Linear(UseCopyInstead&)
// refused: call to deleted constructor of 'lockstep::nn::Linear'
#include <lockstep/lockstep.h>

void freeze(std::vector<lockstep::nn::Linear>& layers) {
  for (auto layer : layers) layer.zero_grad();
}
