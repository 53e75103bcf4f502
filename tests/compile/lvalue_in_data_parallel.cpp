// refused: this would copy a module: pass std::move(module), or a copy by lockstep::copy(module)
#include <lockstep/lockstep.h>

struct Net : lockstep::nn::Module<Net> {
  lockstep::nn::Linear fc{2, 2};
  auto members() { return lockstep::nn::members("fc", fc); }
  lockstep::Tensor forward(const lockstep::Tensor& x) { return fc(x); }
};

void wrap(Net& net) { lockstep::DataParallel model(net); }
