// Chapter 10: the program that libtorch's documentation begins with, here.
#include <lockstep/lockstep.h>

#include <vector>
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

struct Block : nn::Module<Block> {
  nn::Linear fc;
  explicit Block(int64_t width) : fc(width, width) {}

  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return x + relu(fc(x)); }
};

struct Deep : nn::Module<Deep> {
  std::vector<Block> blocks;  // torch::nn::ModuleList blocks;
  nn::Linear output{16, 10, {.bias = false}};
  nn::Buffer offset{zeros({16})};

  explicit Deep(int64_t depth) {
    for (int64_t i = 0; i < depth; ++i) blocks.push_back(Block(16));
  }
  auto members() { return nn::members("blocks", blocks, "output", output, "offset", offset); }
  Tensor forward(Tensor x) {
    x = x - offset;
    for (Block& block : blocks) x = block(x);
    return output(x);
  }
};

void members_of_modules() {
  Deep net(3);
  for (const auto& [name, parameter] : net.named_parameters()) print("{:<18} {:>4}\n", name, parameter.numel());

  const NoGrad no_grad;
  net.blocks[0].fc.bias->fill_(0.5);  // a bias may be missing: it is a std::optional
  Tensor bias = *net.blocks[0].fc.bias;
  print("output has a bias: {}\n", net.output.bias ? "yes" : "no");
  net.offset = full({16}, 0.25);  // copies elements into the buffer
  print("{:.3f}, {:.3f}\n", bias[0].item<double>(), net.offset[0].item<double>());
}

int main() {
  members_of_modules();

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
