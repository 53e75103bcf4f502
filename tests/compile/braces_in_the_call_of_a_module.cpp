// refused: an argument in braces has no type in the call of a module
#include <lockstep/lockstep.h>

lockstep::Tensor output(lockstep::nn::LSTM& lstm, const lockstep::Tensor& x, const lockstep::Tensor& h) {
  auto [output, state] = lstm(x, {h, h});
  return output;
}
