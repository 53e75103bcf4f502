// Chapter 10: the program that libtorch's documentation begins with, here.
#include <lockstep/lockstep.h>
using namespace lockstep;

struct Net : nn::Module<Net> {                        // struct Net : torch::nn::Module {
  nn::Linear fc1{784, 64}, fc2{64, 32}, fc3{32, 10};  //   register_module("fc1", fc1); ...
  nn::Dropout dropout{0.5};

  auto members() { return nn::members("fc1", fc1, "fc2", fc2, "fc3", fc3, "dropout", dropout); }

  Tensor forward(Tensor x) {
    x = relu(fc1(x.reshape({x.size(0), 784})));  // torch::relu(fc1->forward(x.reshape({x.size(0), 784})))
    x = dropout(x);
    x = relu(fc2(x));
    return log_softmax(fc3(x), 1);
  }
};

int main() {
  manual_seed(1);           // torch::manual_seed(1)
  DataParallel net(Net{});  // auto net = std::make_shared<Net>(); and one device
  data::DataLoader loader(data::SyntheticDigits(1280), {.batch_size = 64, .shuffle = true});
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});

  double first = 0, last = 0;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    double total = 0;
    for (auto& [images, digits] : loader) {
      optimizer.zero_grad();
      Tensor prediction = net(images.to(net.device()));  // net->forward(batch.data)
      Tensor loss = nn::nll_loss(prediction, digits.to(net.device()));
      loss.backward();
      optimizer.step();
      total += loss.item<double>();  // loss.item<float>()
    }
    (epoch == 1 ? first : last) = total / double(loader.size());
  }
  save(net.module().state_dict(), "net.safetensors");  // torch::save(net, "net.pt")
  print("the loss falls: {}\n", last < first ? "yes" : "no");
  return last < first ? 0 : 1;
}
