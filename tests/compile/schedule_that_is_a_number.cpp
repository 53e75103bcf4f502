// refused: wrong type for this option: .optimizer takes an optimizer
#include <lockstep/lockstep.h>

struct Net : lockstep::nn::Module<Net> {
  lockstep::nn::Linear fc{4, 2};
  auto members() { return lockstep::nn::members("fc", fc); }
  lockstep::Tensor forward(const lockstep::Tensor& x) { return fc(x); }
};

using Batch = std::tuple<lockstep::Tensor, lockstep::Tensor>;

lockstep::train::History trained(Net& net, std::vector<Batch>& loader, lockstep::optim::Optimizer& optimizer) {
  auto loss = [](auto& model, auto& batch, auto&) {
    return lockstep::nn::mse_loss(model(get<0>(batch)), get<1>(batch));
  };
  return lockstep::train::Trainer({}).fit(net, loader, {.loss = loss, .optimizer = optimizer, .schedule = 0.1});
}
