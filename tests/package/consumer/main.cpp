#include <lockstep/lockstep.h>

#include <cmath>

#include "swish.h"

int main() {
  lockstep::print("{}\n", lockstep::ones({2, 3}) + lockstep::ones({2, 3}));
  const lockstep::Tensor x = lockstep::tensor({0.0, 1.0}).requires_grad_();
  const lockstep::Tensor y = swish(x, lockstep::ones({}));
  lockstep::sum(y).backward();
  lockstep::print("{} {}\n", y, x.grad());
  return std::abs(y.to_vector<float>()[1] - 0.7310586) < 1e-6 && x.grad().to_vector<float>()[0] == 0.5f ? 0 : 1;
}
