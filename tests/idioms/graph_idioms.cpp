#include "idioms/idioms.h"

namespace lockstep {
namespace {

Tensor sampling_grid() { return linspace(-1.5, 1.5, 12).view({1, 2, 3, 2}); }

std::vector<Idiom> functional_idioms() {
  return {
      {"F::one_hot",
       [] {
         return nn::functional::one_hot(tensor({0, 2, 1}), 4);
       }},
      {"F::one_hot as floats",
       [] {
         return nn::functional::one_hot(tensor({1, 0})).to(kFloat32);
       }},
      {"F::embedding",
       [] {
         return nn::functional::embedding(tensor({{1, 0}}), matrix());
       }},
      {"F::grid_sample", [] { return nn::functional::grid_sample(image(), sampling_grid()); }},
      {"F::grid_sample with options",
       [] {
         return nn::functional::grid_sample(image(), sampling_grid(),
                                            {.mode = "nearest", .padding_mode = "border", .align_corners = true});
       }},
      {"F::grid_sample, bicubic and reflected",
       [] {
         return nn::functional::grid_sample(image(), sampling_grid(),
                                            {.mode = "bicubic", .padding_mode = "reflection"});
       }},
      {"pad_sequence",
       [] {
         return nn::utils::rnn::pad_sequence({tensor({1, 2, 3}), tensor({4})});
       }},
      {"pad_sequence, batch first",
       [] {
         return nn::utils::rnn::pad_sequence(std::vector{tensor({1, 2, 3}), tensor({4})}, true, -1);
       }},
      {"pad_sequence on the left",
       [] {
         return nn::utils::rnn::pad_sequence({tensor({1, 2}), tensor({4})},
                                             {.batch_first = true, .padding_side = "left"});
       }},
      {"mask of lengths",
       [] {
         return arange(4).unsqueeze(0) < tensor({2, 4}).unsqueeze(1);
       }},
      {"pack_padded_sequence",
       [] {
         return nn::utils::rnn::pack_padded_sequence(whole(), tensor({4, 2, 1}), true).data;
       }},
      {"pad_packed_sequence",
       [] {
         return nn::utils::rnn::pad_packed_sequence(
                    nn::utils::rnn::pack_padded_sequence(whole(), tensor({2, 4, 1}), true, false), true)
             .output;
       }},
      {"pack_sequence",
       [] {
         return nn::utils::rnn::pack_sequence({tensor({1, 2}), tensor({3})}).data;
       }},
      {"unpad_sequence",
       [] {
         return nn::utils::rnn::unpad_sequence(whole(), {3, 1, 2, 2})[2];
       }},
  };
}

std::vector<Idiom> gradient_idioms() {
  return {
      {"register_hook",
       [] {
         Tensor x = leaf();
         x.register_hook([](Tensor grad) { return grad * 2; });
         (x * x).sum().backward();
         return x.grad();
       }},
      {"register_hook that only looks",
       [] {
         Tensor x = leaf(), seen;
         Tensor y = x.exp();
         y.register_hook([&](const Tensor& grad) { seen = grad; });
         (y * 3).sum().backward();
         return seen;
       }},
      {"register_hook, removed",
       [] {
         Tensor x = leaf();
         auto handle = x.register_hook([](const Tensor& grad) { return grad * 2; });
         handle.remove();
         x.sum().backward();
         return x.grad();
       }},
      {"backward that retains the graph",
       [] {
         Tensor x = leaf();
         Tensor loss = (x * x).sum();
         loss.backward({.retain_graph = true});
         loss.backward();
         return x.grad();
       }},
      {"backward of a vector",
       [] {
         Tensor x = leaf();
         Tensor y = x * x;
         y.backward(ones_like(y), {.retain_graph = true});
         return x.grad();
       }},
      {"gradient through cumprod with a zero",
       [] {
         Tensor x = tensor({2., 0., 3., 4.}).requires_grad_();
         x.cumprod(0).sum().backward();
         return x.grad();
       }},
      {"gradient through quantile",
       [] {
         Tensor x = leaf();
         x.quantile(0.3).backward();
         return x.grad();
       }},
      {"gradient through unfold",
       [] {
         Tensor x = leaf();
         x.unfold(1, 2, 1).pow(2).sum().backward();
         return x.grad();
       }},
      {"gradient through grid_sample",
       [] {
         Tensor grid = sampling_grid().requires_grad_();
         nn::functional::grid_sample(image(), grid).sum().backward();
         return grid.grad();
       }},
      {"gradient through index_copy_",
       [] {
         Tensor x = leaf();
         Tensor y = zeros({3, 3});
         y.index_copy_(0, tensor({2, 0}), x * 2);
         y.pow(2).sum().backward();
         return x.grad();
       }},
      {"gradient through addcmul_",
       [] {
         Tensor x = leaf();
         Tensor y = ones({2, 3});
         y.addcmul_(x, x, 0.5);
         y.sum().backward();
         return x.grad();
       }},
      {"padding_idx of F::embedding",
       [] {
         Tensor weight = leaf();
         nn::functional::embedding(tensor({0, 1, 1}), weight, {.padding_idx = 0}).sum().backward();
         return weight.grad();
       }},
      {"inference mode",
       [] {
         InferenceMode guard;
         return tensor((leaf() * 2).requires_grad());
       }},
      {"detect_anomaly",
       [] {
         autograd::detect_anomaly guard;
         Tensor x = zeros({2}).requires_grad_();
         try {
           (x.sqrt() * 0).sum().backward();
         } catch (const Error& error) {
           return tensor(std::string(error.what()).find("Sqrt") != std::string::npos);
         }
         return tensor(false);
       }},
      {"manual_seed on every device",
       [] {
         cuda::manual_seed(3);
         Tensor first = rand({4});
         cuda::manual_seed_all(3);
         return tensor(equal(first, rand({4})));
       }},
      {"synchronize where there is a GPU",
       [] {
         if (cuda::is_available()) cuda::synchronize();
         cuda::empty_cache();
         return tensor(true);
       }},
  };
}

}  // namespace

std::vector<Idiom> graph_idioms() {
  std::vector<Idiom> all = functional_idioms();
  for (Idiom& idiom : gradient_idioms()) all.push_back(std::move(idiom));
  return all;
}

}  // namespace lockstep
