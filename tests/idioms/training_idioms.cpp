// Optimizers, schedules, averages, modules, options and data: make_training_idioms.py computes the same with PyTorch.
#include <cmath>
#include <tuple>

#include "idioms/idioms.h"

namespace lockstep {
namespace {

using namespace optim::swa_utils;
namespace F = nn::functional;

// Gives a layer parameters that do not depend on random numbers.
template <class Layer>
Layer fixed(Layer layer) {
  const NoGrad guard;
  for (Tensor& parameter : std::vector<Tensor>(layer.parameters()))
    parameter.copy_(linspace(-0.5, 0.5, parameter.numel()).view(parameter.sizes()));
  return layer;
}

nn::Sequential net() { return fixed(nn::Sequential(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 1))); }
Tensor picture() { return linspace(-1, 1, 2 * 36).view({1, 2, 6, 6}); }
Tensor table() { return positive().t().contiguous(); }

// The first six rates of a schedule.
template <class Make>
Tensor rates(const Make& make) {
  nn::Linear layer(1, 1);
  optim::SGD optimizer(layer.parameters(), {.lr = 0.5, .momentum = 0.9});
  auto schedule = make(optimizer);
  std::vector<float> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(float(optimizer.lr()));
    schedule.step();
  }
  return tensor(all);
}

// The weight of a layer after some steps of the optimizer that `make` returns.
template <class Make>
Tensor trained(const Make& make, int steps = 3) {
  auto layer = fixed(nn::Linear(3, 1));
  auto optimizer = make(layer);
  for (int i = 0; i < steps; ++i)
    optimizer.step([&] {
      optimizer.zero_grad();
      Tensor loss = F::mse_loss(layer(matrix()), ones({2, 1}));
      loss.backward();
      return loss;
    });
  return layer.weight.detach().clone();
}

Tensor averaged(const AveragedModelOptions& options = {}) {
  auto layer = fixed(nn::Linear(3, 1));
  AveragedModel average(layer, options);
  optim::SGD optimizer(layer.parameters(), {.lr = 0.01});
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    F::mse_loss(layer(matrix()), ones({2, 1})).backward();
    optimizer.step();
    average.update_parameters(layer);
  }
  return average(matrix());
}

}  // namespace

std::vector<Idiom> training_idioms() {
  return {
      {"LambdaLR",
       [] {
         return rates([](auto& o) { return optim::LambdaLR(o, [](int64_t epoch) { return std::pow(0.95, epoch); }); });
       }},
      {"LambdaLR by its option",
       [] {
         return rates([](auto& o) {
           return optim::LambdaLR(o, {.lr_lambda = [](int64_t epoch) { return 1. / double(epoch + 1); }});
         });
       }},
      {"MultiplicativeLR",
       [] { return rates([](auto& o) { return optim::MultiplicativeLR(o, [](int64_t) { return 0.9; }); }); }},
      {"ConstantLR",
       [] { return rates([](auto& o) { return optim::ConstantLR(o, {.factor = 0.5, .total_iters = 3}); }); }},
      {"CyclicLR",
       [] {
         return rates([](auto& o) {
           return optim::CyclicLR(o, {.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 2, .mode = "triangular2"});
         });
       }},
      {"StepLR by position", [] { return rates([](auto& o) { return optim::StepLR(o, 2, 0.5); }); }},
      {"ExponentialLR by position", [] { return rates([](auto& o) { return optim::ExponentialLR(o, 0.9); }); }},
      {"CosineAnnealingLR", [] { return rates([](auto& o) { return optim::CosineAnnealingLR(o, {.T_max = 5}); }); }},
      {"CosineAnnealingWarmRestarts",
       [] { return rates([](auto& o) { return optim::CosineAnnealingWarmRestarts(o, {.T_0 = 2, .T_mult = 2}); }); }},
      {"OneCycleLR of epochs",
       [] {
         return rates([](auto& o) { return optim::OneCycleLR(o, {.max_lr = 0.1, .epochs = 2, .steps_per_epoch = 5}); });
       }},
      {"SWALR",
       [] {
         return rates(
             [](auto& o) { return SWALR(o, {.swa_lr = 0.05, .anneal_epochs = 4, .anneal_strategy = "linear"}); });
       }},
      {"SequentialLR",
       [] {
         return rates([](auto& o) {
           return optim::SequentialLR(
               o, {.schedulers = {optim::LinearLROptions{.total_iters = 2}, optim::ExponentialLROptions{.gamma = 0.5}},
                   .milestones = {2}});
         });
       }},
      {"get_last_lr",
       [] {
         optim::SGD optimizer(nn::Linear(1, 1).parameters(), {.lr = 0.5});
         optim::StepLR schedule(optimizer, {.step_size = 1});
         schedule.step();
         return tensor(schedule.get_last_lr()).to(kFloat);
       }},
      {"ReduceLROnPlateau of a maximum",
       [] {
         optim::SGD optimizer(nn::Linear(1, 1).parameters(), {.lr = 0.5});
         optim::ReduceLROnPlateau plateau(optimizer, {.mode = "max", .factor = 0.5, .patience = 0});
         for (const double metric : {1., 2., 1.5}) plateau.step(metric);
         return tensor(optimizer.lr());
       }},
      {"RAdam", [] { return trained([](auto& l) { return optim::RAdam(l.parameters(), {.lr = 0.1}); }, 8); }},
      {"LBFGS",
       [] { return trained([](auto& l) { return optim::LBFGS(l.parameters(), {.lr = 0.1, .max_iter = 4}); }); }},
      {"LBFGS with a line search",
       [] {
         return trained(
             [](auto& l) { return optim::LBFGS(l.parameters(), {.max_iter = 2, .line_search_fn = "strong_wolfe"}); },
             1);
       }},
      {"step of a closure", [] { return trained([](auto& l) { return optim::SGD(l.parameters(), {.lr = 0.01}); }); }},
      {"groups",
       [] {
         return trained([](auto& l) { return optim::SGD({{{l.weight}, {.lr = 0.01}}, {{*l.bias}, {.lr = 0.1}}}); });
       }},
      {"add_param_group and param_groups",
       [] {
         auto layer = fixed(nn::Linear(3, 1));
         optim::SGD optimizer({layer.weight}, {.lr = 0.1});
         optimizer.add_param_group({.params = {*layer.bias}, .options = {.lr = 0.1}});
         for (auto& group : optimizer.param_groups()) group.options.lr *= 0.1;
         for (int i = 0; i < 3; ++i) {
           optimizer.zero_grad();
           F::mse_loss(layer(matrix()), ones({2, 1})).backward();
           optimizer.step();
         }
         return layer.weight.detach().clone();
       }},
      {"AveragedModel", [] { return averaged(); }},
      {"AveragedModel as an EMA", [] { return averaged({.avg_fn = get_ema_avg_fn(0.9)}); }},

      {"modules",
       [] {
         auto model = net();
         int64_t linear = 0;
         for (nn::ModuleBase* module : model.modules()) linear += module->as<nn::Linear>() != nullptr;
         return tensor(linear);
       }},
      {"named_modules",
       [] {
         auto model = net();
         for (const auto& [name, module] : model.named_modules())
           if (name == "2") return tensor(module->as<nn::Linear>()->weight.size(0));
         return Tensor();
       }},
      {"children", [] { return tensor(int64_t(net().children().size())); }},
      {"buffers",
       [] {
         nn::BatchNorm1d norm(3);
         std::vector<Tensor> sums;
         for (const Tensor& buffer : norm.buffers())
           if (buffer.dtype() == kFloat) sums.push_back(buffer.sum());
         return stack(sums);
       }},
      {"named_buffers",
       [] {
         nn::BatchNorm1d norm(3);
         const auto named = norm.named_buffers();
         return tensor(
             {named[0].first == "running_mean", named[1].first == "running_mean", named[2].first == "running_mean"});
       }},
      {"apply",
       [] {
         auto model = net();
         model.apply([](nn::ModuleBase& m) {
           if (auto* linear = m.as<nn::Linear>()) {
             const NoGrad guard;
             nn::init::constant_(linear->weight, 0.5);
             nn::init::zeros_(*linear->bias);
           }
         });
         return model(matrix());
       }},
      {"forward hook",
       [] {
         auto model = net();
         Tensor features;
         auto handle = model[0].register_forward_hook(
             [&](nn::ModuleBase&, const Tensor&, const Tensor& output) { features = output.detach(); });
         model(matrix());
         handle.remove();
         model(other());
         return features;
       }},
      {"frozen body",
       [] {
         auto model = net();
         model.requires_grad_(false);
         model[2].requires_grad_();
         model(matrix()).sum().backward();
         const auto p = model.parameters();
         return tensor({p[0].grad().defined(), p[1].grad().defined(), p[2].grad().defined(), p[3].grad().defined()});
       }},
      {"parameters that are trained",
       [] {
         auto model = net();
         for (Tensor p : model[0].parameters()) p.requires_grad_(false);
         int64_t count = 0;
         for (const Tensor& p : model.parameters())
           if (p.requires_grad()) count += p.numel();
         return tensor(count);
       }},
      {"device of a module", [] { return tensor(net().device().is_cpu()); }},

      {"state of a key", [] { return fixed(nn::Linear(3, 2)).state_dict()["bias"]; }},
      {"state changed by key",
       [] {
         StateDict state = fixed(nn::Linear(3, 2)).state_dict();
         state["bias"] = zeros({2});
         nn::Linear layer(3, 2);
         layer.load_state_dict(state);
         return layer(matrix());
       }},
      {"state without a key",
       [] {
         StateDict state = fixed(nn::Linear(3, 2)).state_dict();
         state.erase("bias");
         return tensor({state.contains("bias"), state.contains("weight")});
       }},
      {"state of other names",
       [] {
         StateDict old, renamed;
         for (const auto& [key, value] : fixed(nn::Linear(3, 2)).state_dict()) old["module." + key] = value;
         for (const auto& [key, value] : old) renamed[key.substr(7)] = value;
         nn::Linear layer(3, 2);
         layer.load_state_dict(renamed);
         return layer.weight.detach().clone();
       }},

      {"Embedding.from_pretrained",
       [] {
         return nn::Embedding::from_pretrained(table())(tensor({{0, 2}, {1, 1}}));
       }},
      {"padding_idx", [] { return nn::Embedding(3, 2, {.padding_idx = 1})(tensor({1})); }},
      {"max_norm",
       [] {
         return nn::Embedding::from_pretrained(table(), {.max_norm = 1})(tensor({{0, 2}, {1, 1}}));
       }},
      {"reduction by name", [] { return F::mse_loss(matrix(), other(), {.reduction = "sum"}); }},
      {"loss with a reduction by name", [] { return nn::L1Loss({.reduction = "none"})(matrix(), other()); }},
      {"kl_div by the batch",
       [] { return F::kl_div(matrix().log_softmax(1), other().softmax(1), {.reduction = "batchmean"}); }},
      {"ignore_index and reduction",
       [] {
         return F::cross_entropy(matrix(), tensor({2, 0}), {.ignore_index = 0, .reduction = "sum"});
       }},
      {"CrossEntropyLoss with ignore_index",
       [] {
         return nn::CrossEntropyLoss({.ignore_index = 2})(matrix(), tensor({2, 0}));
       }},
      {"calculate_gain",
       [] {
         namespace init = nn::init;
         return tensor({init::calculate_gain("linear"), init::calculate_gain("tanh"), init::calculate_gain("relu"),
                        init::calculate_gain("leaky_relu", 0.2), init::calculate_gain("selu")});
       }},
      {"kaiming_uniform_ of a fan",
       [] {
         Tensor weight = zeros({64, 32, 3, 3});
         nn::init::kaiming_uniform_(weight, {.mode = "fan_out", .nonlinearity = "relu"});
         return (weight.abs().max() * 100).round();
       }},
      {"Linear without a bias", [] { return fixed(nn::Linear(3, 2, false))(matrix()); }},
      {"Conv2d by position", [] { return fixed(nn::Conv2d(2, 3, 3, 1, 1))(picture()); }},
      {"ConvTranspose2d by position", [] { return fixed(nn::ConvTranspose2d(2, 3, 4, 2, 1))(picture()); }},
      {"padding by name",
       [] { return fixed(nn::Conv2d(2, 3, 3, {.padding = "same", .padding_mode = "reflect"}))(picture()); }},
      {"MaxPool2d by position", [] { return nn::MaxPool2d(2, 2)(picture()); }},
      {"AvgPool2d by position", [] { return nn::AvgPool2d(3, 2)(picture()); }},
      {"ReLU in place", [] { return nn::ReLU(true)(matrix()); }},
      {"GELU by name", [] { return nn::GELU("tanh")(matrix()); }},
      {"gelu by name", [] { return F::gelu(matrix(), "tanh"); }},
      {"interpolate by name", [] { return F::interpolate(picture(), {.scale_factor = 2, .mode = "bilinear"}); }},
      {"pad by name",
       [] {
         return F::pad(picture(), {1, 1, 2, 0}, {.mode = "reflect"});
       }},
      {"RNN by name",
       [] {
         return fixed(nn::RNN(3, 2, {.nonlinearity = "relu", .batch_first = true}))(matrix().unsqueeze(0)).output;
       }},
      {"EmbeddingBag by name",
       [] {
         return fixed(nn::EmbeddingBag(4, 3, {.mode = "sum"}))(tensor({{0, 2}, {1, 1}}));
       }},

      {"vertical flip", [] { return data::transforms::RandomVerticalFlip(1)(picture()[0]); }},
      {"rotation by a quarter",
       [] {
         return data::transforms::RandomRotation({90, 90})(picture()[0]);
       }},
      {"image and mask",
       [] {
         data::MapDataset samples(
             data::TensorDataset(picture(), picture()),
             [](const Tensor& image, const Tensor& mask) { return std::tuple(image * 2, mask + 1); });
         auto [image, mask] = samples.get(0);
         return cat({image, mask});
       }},
      {"loader options",
       [] {
         data::DataLoader loader(
             data::TensorDataset(arange(10)),
             {.batch_size = 4, .shuffle = true, .num_workers = 2, .pin_memory = true, .drop_last = true});
         std::vector<int64_t> sizes;
         for (const Tensor& batch : loader) sizes.push_back(batch.size(0));
         return tensor(sizes);
       }},
  };
}

}  // namespace lockstep
