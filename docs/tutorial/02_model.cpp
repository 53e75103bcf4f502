// Chapter 2: a first model.
#include <lockstep/lockstep.h>
using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Linear hidden{2, 16};
  nn::Linear output{16, 3};
  nn::Dropout dropout{0.1};

  auto members() { return nn::members("hidden", hidden, "output", output, "dropout", dropout); }
  Tensor forward(const Tensor& x) { return output(dropout(relu(hidden(x)))); }
};

int main() {
  manual_seed(1);
  const Device device = try_gpu();
  Net net;
  net.to(device);

  int64_t count = 0;
  for (const auto& [name, parameter] : net.named_parameters()) {
    print("{} {}\n", name, parameter.sizes());
    count += parameter.numel();
  }
  print("{} parameters\n", count);

  Tensor input = randn({5, 2}, {.device = device});
  print("input {}, output {}\n", input.sizes(), net(input).sizes());

  net.eval();            // no dropout from here on
  const NoGrad no_grad;  // and nothing is recorded for backward
  Tensor scores = net(input);
  print("two calls agree: {}\n", all(eq(scores, net(input))).item<bool>() ? "yes" : "no");

  Net other = copy(net);  // has parameters of its own
  other.output.bias->fill_(100);
  print("the copy is changed, net is not: {}\n", all(eq(scores, net(input))).item<bool>() ? "yes" : "no");

  nn::Sequential same{nn::Linear(2, 16), nn::ReLU(), nn::Linear(16, 3)};
  print("a Sequential has {} parameters\n", same.parameters().size());
}
