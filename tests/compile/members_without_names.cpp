// refused: each member has a name before it: members(
#include <lockstep/lockstep.h>

struct Net : lockstep::nn::Module<Net> {
  lockstep::nn::Linear fc1{4, 2}, fc2{2, 1};
  auto members() { return lockstep::nn::members(fc1, fc2); }
  lockstep::Tensor forward(const lockstep::Tensor& x) { return fc2(fc1(x)); }
};

std::vector<lockstep::Tensor> parameters() { return Net().parameters(); }
