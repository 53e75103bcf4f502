// refused: a module that may hold parameters needs a public members()
#include <lockstep/lockstep.h>

struct Scale : lockstep::nn::Module<Scale> {
  std::optional<lockstep::nn::Parameter> factor;
  lockstep::Tensor forward(const lockstep::Tensor& x) { return x * *factor; }
};

std::vector<lockstep::Tensor> parameters() { return Scale().parameters(); }
