// refused: a module that may hold parameters needs a public members()
#include <lockstep/lockstep.h>

struct Net : lockstep::nn::Module<Net> {
  lockstep::nn::Linear fc{4, 2};
  lockstep::Tensor forward(const lockstep::Tensor& x) { return fc(x); }
};

std::vector<lockstep::Tensor> parameters() { return Net().parameters(); }
