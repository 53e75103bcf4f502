// refused: Lockstep cannot find the tensors in this type. Add auto members()
#include <lockstep/lockstep.h>

struct Scale {
  lockstep::nn::Parameter factor;
};

struct Net : lockstep::nn::Module<Net> {
  std::vector<Scale> scales;
  auto members() { return lockstep::nn::members("scales", scales); }
};

std::vector<lockstep::Tensor> parameters() { return Net().parameters(); }
