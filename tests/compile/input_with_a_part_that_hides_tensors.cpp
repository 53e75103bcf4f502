// refused: Lockstep cannot find the tensors in this type. Add auto members()
#include <lockstep/lockstep.h>

struct Mask {
  lockstep::Tensor bits;
};

auto split(const std::tuple<lockstep::Tensor, std::vector<Mask>>& input) {
  return lockstep::scatter(input, lockstep::try_all_gpus());
}
