#include <filesystem>
#include <tuple>

#include "idioms/idioms.h"

namespace lockstep {
namespace {

// Gives a layer parameters that do not depend on random numbers.
template <class Layer>
Layer filled(Layer layer) {
  const NoGrad guard;
  for (Tensor& parameter : std::vector<Tensor>(layer.parameters()))
    parameter.copy_(linspace(-0.5, 0.5, parameter.numel()).view(parameter.sizes()));
  return layer;
}

}  // namespace

std::vector<Idiom> model_idioms() {
  return {
      {"linear", [] { return filled(nn::Linear(3, 2))(matrix()); }},
      {"linear without bias", [] { return filled(nn::Linear(3, 2, {.bias = false}))(matrix()); }},
      {"conv2d", [] { return filled(nn::Conv2d(2, 3, 3, {.stride = 2, .padding = 1}))(image()); }},
      {"max_pool2d", [] { return nn::MaxPool2d(2)(image()); }},
      {"avg_pool2d", [] { return avg_pool2d(image(), 3); }},
      {"adaptive_avg_pool2d", [] { return nn::AdaptiveAvgPool2d(1)(image()); }},
      {"batch_norm in training", [] { return nn::BatchNorm2d(2)(image()); }},
      {"layer_norm", [] { return nn::LayerNorm(3)(matrix()); }},
      {"embedding",
       [] {
         return filled(nn::Embedding(4, 2))(tensor({{3, 0}}));
       }},
      {"lstm output", [] { return filled(nn::LSTM(3, 2))(matrix().unsqueeze(0)).output; }},
      {"sequential",
       [] {
         nn::Sequential net(filled(nn::Linear(3, 4)), nn::ReLU(), filled(nn::Linear(4, 2)));
         return net(matrix());
       }},
      {"sequential with a lambda",
       [] {
         nn::Sequential net(
             filled(nn::Linear(3, 4)), [](const Tensor& x) { return relu(x); }, filled(nn::Linear(4, 2)));
         return net(matrix());
       }},
      {"dropout in evaluation",
       [] {
         nn::Dropout dropout(0.5);
         dropout.eval();
         return dropout(matrix());
       }},
      {"number of parameters",
       [] {
         int64_t count = 0;
         for (const Tensor& parameter : nn::Linear(3, 2).parameters()) count += parameter.numel();
         return tensor(count);
       }},
      {"num_parameters", [] { return tensor(nn::Linear(3, 2).num_parameters()); }},
      {"gelu", [] { return gelu(matrix()); }},
      {"leaky_relu", [] { return nn::leaky_relu(matrix(), 0.2); }},
      {"mse_loss", [] { return nn::mse_loss(matrix(), other()); }},
      {"l1_loss", [] { return nn::l1_loss(matrix(), other()); }},
      {"cross_entropy",
       [] {
         return nn::cross_entropy(matrix(), tensor({2, 0}));
       }},
      {"nll_loss",
       [] {
         return nn::nll_loss(matrix().log_softmax(1), tensor({2, 0}));
       }},
      {"bce_with_logits", [] { return nn::binary_cross_entropy_with_logits(matrix(), (other() > 1).to(kFloat)); }},
      {"backward",
       [] {
         Tensor x = leaf();
         (x * x).sum().backward();
         return x.grad();
       }},
      {"backward twice adds",
       [] {
         Tensor x = leaf();
         x.sum().backward();
         x.sum().backward();
         return x.grad();
       }},
      {"gradient through an index",
       [] {
         Tensor x = leaf();
         x.index({tensor({1, 1}), tensor({0, 2})}).sum().backward();
         return x.grad();
       }},
      {"gradient through a mask",
       [] {
         Tensor x = leaf();
         x.index({x > 0}).pow(2).sum().backward();
         return x.grad();
       }},
      {"gradient through index_put_",
       [] {
         Tensor x = leaf();
         Tensor y = x * 2;
         y.index_put_({y > 5}, 0);
         y.sum().backward();
         return x.grad();
       }},
      {"gradient through relu_",
       [] {
         Tensor x = leaf();
         (x * 3).relu_().sum().backward();
         return x.grad();
       }},
      {"gradient through scatter",
       [] {
         Tensor x = leaf();
         zeros({2, 3}).scatter(1, tensor({{0, 1, 2}, {2, 1, 0}}), x).pow(2).sum().backward();
         return x.grad();
       }},
      {"gradient through max",
       [] {
         Tensor x = leaf();
         x.max(1).values.sum().backward();
         return x.grad();
       }},
      {"gradient through remainder",
       [] {
         Tensor x = leaf();
         (x % 1.5).sum().backward();
         return x.grad();
       }},
      {"no grad",
       [] {
         const NoGrad guard;
         return tensor((leaf() * 2).requires_grad());
       }},
      {"detach", [] { return tensor((leaf() * 2).detach().requires_grad()); }},
      {"training step",
       [] {
         auto net = filled(nn::Linear(3, 1));
         optim::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
         for (int i = 0; i < 3; ++i) {
           optimizer.zero_grad();
           Tensor loss = nn::mse_loss(net(matrix()), ones({2, 1}));
           loss.backward();
           optimizer.step();
         }
         return net.weight.detach().clone();
       }},
      {"adam step",
       [] {
         auto net = filled(nn::Linear(3, 1));
         optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
         nn::mse_loss(net(matrix()), ones({2, 1})).backward();
         optimizer.step();
         return net.weight.detach().clone();
       }},
      {"state dict round trip",
       [] {
         auto from = filled(nn::Linear(3, 2));
         nn::Linear to(3, 2);
         to.load_state_dict(from.state_dict());
         return to.weight.detach().clone();
       }},
      {"normal log_prob", [] { return distributions::Normal(0.5, 2).log_prob(matrix()); }},
      {"normal entropy",
       [] {
         return distributions::Normal(zeros(2), tensor({1., 3.})).entropy();
       }},
      {"uniform log_prob",
       [] {
         return distributions::Uniform(-1, 3).log_prob(tensor({0., 5.}));
       }},
      {"bernoulli log_prob",
       [] {
         return distributions::Bernoulli(tensor({0.25, 0.5})).log_prob(tensor({1., 0.}));
       }},
      {"bernoulli entropy",
       [] {
         return distributions::Bernoulli({.logits = tensor({0.5, -2.})}).entropy();
       }},
      {"categorical log_prob",
       [] {
         return distributions::Categorical({.logits = matrix()}).log_prob(tensor({2, 1}));
       }},
      {"categorical entropy", [] { return distributions::Categorical(positive()).entropy(); }},
      {"categorical sample shape",
       [] {
         return tensor(distributions::Categorical(positive()).sample({4, 5}).sizes().vec());
       }},
      {"policy gradient",
       [] {
         Tensor logits = leaf();
         (-distributions::Categorical({.logits = logits}).log_prob(tensor({0, 2}))).mean().backward();
         return logits.grad();
       }},
      {"functional",
       [] {
         namespace F = nn::functional;
         return F::relu(F::log_softmax(matrix(), 1) + 2);
       }},
      {"no grad by its other name",
       [] {
         NoGradGuard guard;
         return tensor((leaf() * 2).requires_grad());
       }},
      {"detach_",
       [] {
         Tensor x = leaf();
         Tensor y = x * 2;
         y.detach_();
         return tensor({y.requires_grad(), y.is_leaf()});
       }},
      {"retain_grad",
       [] {
         Tensor x = leaf();
         Tensor y = x * 2;
         y.retain_grad();
         (y * y).sum().backward();
         return y.grad();
       }},
      {"retain_grad twice adds",
       [] {
         Tensor x = leaf();
         Tensor y = x * 2;
         y.retain_grad();
         Tensor loss = (y * y).sum();
         loss.backward({}, true);
         loss.backward();
         return y.grad();
       }},
      {"clip_grad_norm_",
       [] {
         Tensor x = leaf();
         (x * x).sum().backward();
         nn::utils::clip_grad_norm_({x}, 1);
         return x.grad();
       }},
      {"clip_grad_value_",
       [] {
         Tensor x = leaf();
         (x * x).sum().backward();
         nn::utils::clip_grad_value_({x}, 5);
         return x.grad();
       }},
      {"lstm with a state",
       [] {
         auto lstm = filled(nn::LSTM(3, 2));
         return lstm(matrix().unsqueeze(0), std::make_tuple(ones({1, 2, 2}), zeros({1, 2, 2}))).output;
       }},
      {"save and load a module",
       [] {
         const auto file = (std::filesystem::temp_directory_path() / "lockstep_idiom_module.safetensors").string();
         auto from = filled(nn::Linear(3, 2));
         nn::Linear to(3, 2);
         save(from, file);
         load(to, file);
         std::filesystem::remove(file);
         return to.weight.detach().clone();
       }},
      {"save and load an optimizer",
       [] {
         const auto file = (std::filesystem::temp_directory_path() / "lockstep_idiom_optimizer.safetensors").string();
         auto layer = filled(nn::Linear(3, 1));
         optim::SGD from(layer.parameters(), {.lr = 0.25}), to(layer.parameters(), {.lr = 1});
         save(from, file);
         load(to, file);
         std::filesystem::remove(file);
         return tensor(to.lr());
       }},
      {"save and load a tensor",
       [] {
         const auto file = (std::filesystem::temp_directory_path() / "lockstep_idiom_tensor.safetensors").string();
         Tensor x;
         save(whole(), file);
         load(x, file);
         std::filesystem::remove(file);
         return x;
       }},
  };
}

}  // namespace lockstep
