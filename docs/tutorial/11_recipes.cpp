// Chapter 11: recipes.
#include <lockstep/lockstep.h>

#include <thread>
#include <vector>
using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Linear features{4, 8}, head{8, 3};
  nn::Buffer scale{ones({4})};
  auto members() { return nn::members("features", features, "head", head, "scale", scale); }
  Tensor forward(const Tensor& x) { return head(relu(features(x * scale))); }
};

// A network over sequences whose batch is dimension 1.
struct Steps : nn::Module<Steps> {
  nn::Linear fc{4, 2};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }  // [steps, batch, 4] -> [steps, batch, 2]
};

// What somebody trained earlier, under names of its own.
StateDict pretrained() {
  StateDict state;
  for (const auto& [name, value] : Net().state_dict()) state.add("backbone." + name, value);
  return state;
}

// A function that only reads takes the module as const: it cannot call forward, which may change buffers.
int64_t count(const Net& net) { return net.num_parameters(); }

int main() {
  manual_seed(11);

  // Another model's weights, a new head, frozen features.
  Net net;
  net.load_state_dict(pretrained(), {.strip_prefix = "backbone."});
  net.head = nn::Linear(8, 5);
  for (Tensor parameter : net.features.parameters()) parameter.requires_grad_(false);
  optim::SGD optimizer(net.head.parameters(), {.lr = 0.1});
  Tensor frozen = net.features.weight.clone();
  nn::cross_entropy(net(randn({6, 4})), tensor({0, 1, 2, 3, 4, 0})).backward();
  optimizer.step();
  print("features are as they were: {}\n", all(eq(net.features.weight, frozen)).item<bool>() ? "yes" : "no");
  print("outputs: {}, parameters: {}\n", net(ones({1, 4})).size(1), count(net));

  // A buffer gets other values in place.
  net.scale.fill_(2);

  // Several threads compute with one model. Each has its own outputs.
  net.eval();
  std::vector<Tensor> outputs(3);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < outputs.size(); ++i)
      threads.emplace_back([&, i] {
        const NoGrad no_grad;
        outputs[i] = net(full({2, 4}, double(i)));
      });
  }
  for (const Tensor& output : outputs) print("a thread computed {}\n", output.sizes());

  // The batch is another dimension than the first.
  DataParallel steps(Steps(), {.scatter = {.dim = 1}});
  print("[steps, batch, features]: {}\n", steps(ones({7, 30, 4})).sizes());
}
