// refused: a module that may hold parameters needs a public members()
#include <lockstep/lockstep.h>

class Net : public lockstep::nn::Module<Net> {
  lockstep::nn::Linear fc{4, 2};
  auto members() { return lockstep::nn::members("fc", fc); }

 public:
  lockstep::Tensor forward(const lockstep::Tensor& x) { return fc(x); }
};

std::vector<lockstep::Tensor> parameters() { return Net().parameters(); }
