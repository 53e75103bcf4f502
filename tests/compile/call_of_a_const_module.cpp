// refused: a module cannot be called through a const reference
#include <lockstep/lockstep.h>

struct Net : lockstep::nn::Module<Net> {
  lockstep::nn::Linear fc{4, 2};
  auto members() { return lockstep::nn::members("fc", fc); }
  lockstep::Tensor forward(const lockstep::Tensor& x) { return fc(x); }
};

lockstep::Tensor output(const Net& net) { return net(lockstep::ones({3, 4})); }
