// refused: name the argument in braces, as in net(tensor({1.f, 2.f})), lstm(x, std::tuple(h, c)) or
#include <lockstep/lockstep.h>

lockstep::Tensor output(lockstep::nn::LSTM& lstm, const lockstep::Tensor& x, const lockstep::Tensor& h) {
  auto [output, state] = lstm(x, {h, h});
  return output;
}
