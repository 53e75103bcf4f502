// refused: a criterion is not a loss function: write train::criterion(nn::CrossEntropyLoss())
#include <lockstep/lockstep.h>

struct Net : lockstep::nn::Module<Net> {
  lockstep::nn::Linear fc{4, 2};
  auto members() { return lockstep::nn::members("fc", fc); }
  lockstep::Tensor forward(const lockstep::Tensor& x) { return fc(x); }
};

using Batch = std::tuple<lockstep::Tensor, lockstep::Tensor>;

lockstep::train::History trained(Net& net, std::vector<Batch>& loader, lockstep::optim::Optimizer& optimizer) {
  return lockstep::train::Trainer({}).fit(net, loader, {.loss = lockstep::nn::MSELoss(), .optimizer = optimizer});
}
