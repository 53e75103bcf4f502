// Sums gradients in 16 bits on 1..N GPUs, and keeps what rounding loses: each device adds it to its gradients of the
// next step (error feedback: Seide et al. 2014, "1-bit stochastic gradient descent"). Shows how far the weights are
// from those of a training that sums in 32 bits.
//   comm_hook [--simulate N]
#include <lockstep/lockstep.h>

#include <iostream>
#include <memory>
#include <vector>

#include "arguments.h"

using namespace lockstep;

// Copies of a hook must share its state.
class ErrorFeedbackHook {
 public:
  void operator()(ReducingBucket& bucket) const {
    Errors& errors = *errors_;
    if (bucket.index() >= errors.size()) errors.resize(bucket.index() + 1);
    std::vector<Tensor>& error = errors[bucket.index()];
    const bool is_new = error.empty() || error[0].numel() != bucket.buffers()[0].numel();
    if (is_new) error = bucket.each_buffer([](const Tensor& gradients) { return zeros_like(gradients); });
    std::size_t device = 0;
    const std::vector<Tensor> rounded = bucket.each_buffer([&](const Tensor& gradients) {
      Tensor& lost = error[device++];
      const Tensor whole = gradients + lost;
      const Tensor sent = whole.to(kBFloat16);
      lost = whole - sent.to(whole.dtype());
      return sent;
    });
    bucket.all_reduce(rounded);
    bucket.set(rounded);
  }

 private:
  using Errors = std::vector<std::vector<Tensor>>;  // by bucket, by device
  std::shared_ptr<Errors> errors_ = std::make_shared<Errors>();
};

// All weights after training, and the last loss.
std::pair<Tensor, float> trained(const CommHook& hook) {
  manual_seed(1);
  const Tensor x = randn({64, 8}), y = sum(x * x, {1}, true) * 0.1;
  DataParallel model(nn::Sequential{nn::Linear(8, 64), nn::Tanh(), nn::Linear(64, 1)},
                     {.buckets = {.comm_hook = hook}});
  optim::SGD optimizer(model.parameters(), {.lr = 0.05});
  Tensor loss;
  for (int step = 0; step < 300; ++step) {
    optimizer.zero_grad();
    loss = nn::mse_loss(model(x), y.to(model.device()));
    loss.backward();
    optimizer.step();
  }
  std::vector<Tensor> weights;
  for (const Tensor& parameter : model.parameters()) weights.push_back(parameter.detach().flatten());
  return {cat(weights), loss.item<float>()};
}

int main(int argc, char** argv) {
  try {
    const auto simulated = simulated_if_asked(argc, argv);
    const auto [exact, exact_loss] = trained({});
    print("sums in 32 bits: loss {:.4f}\n", exact_loss);
    const std::pair<const char*, CommHook> hooks[] = {{"in 16 bits", bfloat16_compress_hook},
                                                      {"in 16 bits with error feedback", ErrorFeedbackHook()}};
    for (const auto& [name, hook] : hooks) {
      const auto [weights, loss] = trained(hook);
      print("{}: loss {:.4f}, weights differ by {:.6f} of their norm\n", name, loss,
            ((weights - exact).norm() / exact.norm()).item());
    }
  } catch (const std::exception& error) {
    std::cerr << "comm_hook: " << error.what() << '\n';
    return 1;
  }
}
