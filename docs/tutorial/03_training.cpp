// Chapter 3: training by hand.
#include <lockstep/lockstep.h>
using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Linear hidden{2, 32};
  nn::Linear output{32, 2};
  auto members() { return nn::members("hidden", hidden, "output", output); }
  Tensor forward(const Tensor& x) { return output(relu(hidden(x))); }
};

double accuracy(const Tensor& scores, const Tensor& target) {
  return mean(eq(argmax(scores, 1), target).to(kFloat32)).item<double>();
}

int main() {
  manual_seed(1);
  const Device device = try_gpu();

  // Points of a square; class 1 is the disc in its middle.
  Tensor points = rand({1200, 2}, {.device = device}) * 2 - 1;
  Tensor classes = (sum(points * points, {1}) < 0.6).to(kInt64);
  Tensor train_points = points.narrow(0, 0, 1000), train_classes = classes.narrow(0, 0, 1000);
  Tensor test_points = points.narrow(0, 1000, 200), test_classes = classes.narrow(0, 1000, 200);

  Net net;
  net.to(device);
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  optim::StepLR schedule(optimizer, {.step_size = 10, .gamma = 0.5});

  for (int epoch = 1; epoch <= 20; ++epoch) {
    net.train();
    double total = 0;
    for (int64_t first = 0; first < 1000; first += 50) {
      Tensor input = train_points.narrow(0, first, 50), target = train_classes.narrow(0, first, 50);
      optimizer.zero_grad();  // forget the gradients of the last step
      Tensor loss = nn::cross_entropy(net(input), target);
      loss.backward();  // compute new ones
      optim::clip_grad_norm_(net.parameters(), 1);
      optimizer.step();  // change the parameters
      total += loss.item<double>();
    }
    schedule.step();
    if (epoch % 10 == 0) print("epoch {}: loss below 0.2: {}\n", epoch, total / 20 < 0.2 ? "yes" : "no");
  }

  net.eval();
  const NoGrad no_grad;
  const double right = accuracy(net(test_points), test_classes);
  print("more than 90% of the test points are right: {}\n", right > 0.9 ? "yes" : "no");
  return right > 0.9 ? 0 : 1;
}
