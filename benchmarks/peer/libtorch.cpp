// The workloads of benchmarks/workloads.cpp in libtorch's C++ front end, on BENCH_DEVICE, under the same names.
//   libtorch CASE
// gpt composes attention of single operations, as many programs do; gpt_sdpa uses scaled_dot_product_attention.
#include <ATen/autocast_mode.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "../harness.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

namespace {

constexpr bool kHasSdpa = TORCH_VERSION_MAJOR >= 2;

// Enables autocast to bfloat16 while it lives, if `on`.
class Autocast {
 public:
  explicit Autocast(bool on) : on_(on) {
    if (!on_) return;
    set(true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set(false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  static void set(bool on) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    const at::DeviceType type = torch::Device(bench::device()).type();
    at::autocast::set_autocast_enabled(type, on);
    at::autocast::set_autocast_dtype(type, at::kBFloat16);
#else
    at::autocast::set_cpu_enabled(on);
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
#endif
  }

  const bool on_;
};

torch::TensorOptions there() { return torch::TensorOptions(torch::Device(bench::device())); }
torch::TensorOptions integers() { return there().dtype(torch::kLong); }

template <class Optimizer, class Loss>
void training(const std::string& name, Optimizer& optimizer, const Loss& loss, bool autocast = false) {
  const auto forward = [&] {
    const Autocast region(autocast);
    return loss();
  };
  bench::run(name + "/step", [&] {
    optimizer.zero_grad();
    forward().backward();
    optimizer.step();
  });
  bench::run(name + "/forward_no_grad", [&] {
    const torch::NoGradGuard guard;
    forward();
  });
}

torch::optim::SGDOptions momentum() { return torch::optim::SGDOptions(0.01).momentum(0.9); }

void seed() {
  nn::Linear linear(5, 2);
  linear->to(there().device());
  const Tensor x = torch::randn({30, 5}, there()), y = torch::randn({30, 2}, there());
  bench::run("seed/forward", [&] { linear(x); });
  torch::optim::SGD optimizer(linear->parameters(), 0.01);
  training("seed", optimizer, [&] { return F::mse_loss(linear(x), y); });
}

void mlp(const std::string& name, bool autocast) {
  nn::Sequential net(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 256), nn::ReLU(), nn::Linear(256, 10));
  net->to(there().device());
  const Tensor x = torch::randn({256, 784}, there()), y = torch::randint(0, 10, {256}, integers());
  torch::optim::SGD optimizer(net->parameters(), momentum());
  training(
      name, optimizer, [&] { return F::cross_entropy(net->forward(x), y); }, autocast);
}

void images(const std::string& name, nn::Sequential net) {
  net->to(there().device());
  const Tensor x = torch::randn({64, 3, 32, 32}, there()), y = torch::randint(0, 10, {64}, integers());
  torch::optim::SGD optimizer(net->parameters(), momentum());
  training(name, optimizer, [&] { return F::cross_entropy(net->forward(x), y); });
}

nn::Sequential lenet() {
  return nn::Sequential(nn::Conv2d(3, 6, 5), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(6, 16, 5), nn::ReLU(),
                        nn::MaxPool2d(2), nn::Flatten(), nn::Linear(16 * 5 * 5, 120), nn::ReLU(), nn::Linear(120, 84),
                        nn::ReLU(), nn::Linear(84, 10));
}

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

struct BlockImpl : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential downsample;

  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", conv3x3(in, out, stride))),
        conv2(register_module("conv2", conv3x3(out, out, 1))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))) {
    if (in == out && stride == 1) return;
    downsample->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)));
    downsample->push_back(nn::BatchNorm2d(out));
    register_module("downsample", downsample);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(y + (downsample->is_empty() ? x : downsample->forward(x)));
  }
};
TORCH_MODULE(Block);

nn::Sequential resnet18() {
  nn::Sequential net(conv3x3(3, 64, 1), nn::BatchNorm2d(64), nn::ReLU());
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    net->push_back(Block(in, out, out == 64 ? 1 : 2));
    net->push_back(Block(out, out, 1));
    in = out;
  }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(512, 10));
  return net;
}

struct LayerImpl : nn::Module {
  nn::LayerNorm ln_1, ln_2;
  nn::Linear c_attn, attn_proj, c_fc, mlp_proj;
  std::int64_t heads;
  bool fused;

  LayerImpl(std::int64_t width, std::int64_t head_count, bool use_sdpa)
      : ln_1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({width})))),
        ln_2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({width})))),
        c_attn(register_module("c_attn", nn::Linear(width, 3 * width))),
        attn_proj(register_module("attn_proj", nn::Linear(width, width))),
        c_fc(register_module("c_fc", nn::Linear(width, 4 * width))),
        mlp_proj(register_module("mlp_proj", nn::Linear(4 * width, width))),
        heads(head_count),
        fused(use_sdpa) {}

  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& future) const {
#if TORCH_VERSION_MAJOR >= 2
    if (fused) return at::scaled_dot_product_attention(q, k, v, {}, 0, true);
#endif
    const Tensor scores = torch::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(-1)));
    const Tensor weights = torch::softmax(scores.masked_fill(future, -std::numeric_limits<float>::infinity()), -1);
    return torch::matmul(weights, v);
  }
  Tensor forward(const Tensor& x, const Tensor& future) {
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto qkv = c_attn(ln_1(x)).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind();
    const Tensor y = attention(qkv[0], qkv[1], qkv[2], future).transpose(1, 2).reshape({batch, length, width});
    const Tensor attended = x + attn_proj(y);
    return attended + mlp_proj(torch::gelu(c_fc(ln_2(attended))));
  }
};
TORCH_MODULE(Layer);

struct GptImpl : nn::Module {
  nn::Embedding wte, wpe;
  std::vector<Layer> layers;
  nn::LayerNorm ln_f;
  nn::Linear head;
  Tensor positions, future;

  GptImpl(std::int64_t vocabulary, std::int64_t length, std::int64_t width, std::int64_t heads, int depth, bool fused)
      : wte(register_module("wte", nn::Embedding(vocabulary, width))),
        wpe(register_module("wpe", nn::Embedding(length, width))),
        ln_f(register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({width})))),
        head(register_module("head", nn::Linear(nn::LinearOptions(width, vocabulary).bias(false)))),
        positions(register_buffer("positions", torch::arange(length))),
        future(register_buffer("future", torch::ones({length, length}, torch::kBool).triu(1))) {
    for (int i = 0; i < depth; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), Layer(width, heads, fused)));
  }
  Tensor forward(const Tensor& tokens) {
    Tensor x = wte(tokens) + wpe(positions);
    for (Layer& layer : layers) x = layer(x, future);
    return head(ln_f(x));
  }
};
TORCH_MODULE(Gpt);

struct GptSizes {
  std::int64_t vocabulary = 4096, length = 128, width = 256, heads = 4;
  int layers = 4;
};
constexpr GptSizes kGpt2 = {50304, 1024, 768, 12, 12};

void gpt(const std::string& name, bool fused, bool autocast, const GptSizes& sizes = {}) {
  Gpt net(sizes.vocabulary, sizes.length, sizes.width, sizes.heads, sizes.layers, fused);
  net->to(there().device());
  const Tensor tokens = torch::randint(0, sizes.vocabulary, {8, sizes.length}, integers());
  const Tensor next = torch::randint(0, sizes.vocabulary, {8 * sizes.length}, integers());
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(3e-4));
  training(
      name, optimizer,
      [&] {
        return F::cross_entropy(net(tokens).view({-1, sizes.vocabulary}), next);
      },
      autocast);
}

void lstm() {
  nn::LSTM net(nn::LSTMOptions(128, 256).num_layers(2).batch_first(true));
  nn::Linear head(256, 10);
  net->to(there().device());
  head->to(there().device());
  const Tensor x = torch::randn({32, 64, 128}, there()), y = torch::randint(0, 10, {32}, integers());
  std::vector<Tensor> parameters = net->parameters();
  for (const Tensor& parameter : head->parameters()) parameters.push_back(parameter);
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(1e-3));
  training("lstm", optimizer, [&] { return F::cross_entropy(head(std::get<0>(net(x)).select(1, -1)), y); });
}

void elementwise() {
  const torch::NoGradGuard guard;
  const Tensor a = torch::randn({16 << 20}, there()), b = torch::randn({16 << 20}, there()),
               rows = a.view({16384, 1024});
  const Tensor weight = torch::ones({1024}, there()), bias = torch::zeros({1024}, there());
  bench::run("elementwise/add", [&] { a + b; });
  bench::run("elementwise/add_in_place", [&] { b.add_(a, 1e-6); });
  bench::run("elementwise/relu", [&] { torch::relu(a); });
  bench::run("elementwise/gelu", [&] { torch::gelu(a); });
  bench::run("elementwise/exp", [&] { torch::exp(a); });
  bench::run("elementwise/softmax", [&] { torch::softmax(rows, -1); });
  bench::run("elementwise/layer_norm", [&] { torch::layer_norm(rows, {1024}, weight, bias); });
  bench::run("elementwise/sum", [&] { a.sum(); });
  bench::run("elementwise/sum_rows", [&] { rows.sum(0); });
  bench::run("elementwise/transpose_copy", [&] { rows.t().contiguous(); });
}

void products() {
  const torch::NoGradGuard guard;
  const auto product = [](const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n) {
    const Tensor a = torch::randn({m, k}, there()), b = torch::randn({k, n}, there());
    bench::run("matmul/" + name, [&] { torch::mm(a, b); });
  };
  product("1024x1024x1024", 1024, 1024, 1024);
  product("4096x1024x1024", 4096, 1024, 1024);
  product("100x100x100", 100, 100, 100);
  const Tensor q = torch::randn({32, 128, 64}, there()), k = torch::randn({32, 64, 128}, there());
  bench::run("matmul/batched_32x128x64x128", [&] { torch::bmm(q, k); });
}

void small() {
  const torch::TensorOptions options = there();
  const Tensor a = torch::randn({8}, there()), b = torch::randn({8}, there()), matrix = torch::randn({8, 8}, there()),
               ones = torch::ones({8}, there());
  {
    const torch::NoGradGuard guard;
    bench::run("small/add", [&] { a + b; });
    bench::run("small/add_in_place", [&] { b.add_(a, 1e-9); });
    bench::run("small/empty", [&] { torch::empty({8}, options); });
    bench::run("small/view", [&] { matrix.view({64}); });
    bench::run("small/item", [&] { a.sum().item<float>(); });
  }
  const Tensor leaf = torch::randn({8}, there().requires_grad(true));
  bench::run("small/add_recorded", [&] { leaf + b; });
  bench::run("small/chain100_backward", [&] {
    leaf.mutable_grad() = Tensor();
    Tensor x = leaf + b;
    for (int i = 1; i < 100; ++i) x = x + b;
    x.backward(ones);
  });
}

void d2l() {
  const torch::NoGradGuard guard;
  const Tensor a = torch::randn({100, 100}, there()), b = torch::randn({100, 100}, there());
  double sink = 0;
  bench::run("d2l/log_each", [&] {
    for (int i = 0; i < 1000; ++i) sink += torch::mm(a, b).norm().item<double>();
  });
  bench::run("d2l/log_in_tensor", [&] {
    std::vector<Tensor> log;
    for (int i = 0; i < 1000; ++i) log.push_back(torch::mm(a, b).norm());
    sink += torch::stack(log).sum().item<double>();
  });
}

void first_op() {
  if ((torch::ones({}) + torch::ones({})).item<float>() != 2) std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(int(bench::from_environment("BENCH_THREADS", 2)));
  torch::manual_seed(0);
  if (there().device().is_cuda()) {
    if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {  // nothing here refers to it
      std::fprintf(stderr, "libtorch: %s\n", dlerror());
      return 1;
    }
    bench::wait_for_device = [] { torch::cuda::synchronize(); };
  }
  bench::Cases cases = {{"seed", seed},
                        {"mlp", [] { mlp("mlp", false); }},
                        {"mlp_bfloat16", [] { mlp("mlp_bfloat16", true); }},
                        {"lenet", [] { images("lenet", lenet()); }},
                        {"resnet", [] { images("resnet", resnet18()); }},
                        {"gpt", [] { gpt("gpt", false, false); }},
                        {"gpt_bfloat16", [] { gpt("gpt_bfloat16", false, true); }},
                        {"lstm", lstm},
                        {"elementwise", elementwise},
                        {"matmul", products},
                        {"small", small},
                        {"d2l", d2l},
                        {"first_op", first_op}};
  if (kHasSdpa) {
    cases["gpt_sdpa"] = [] { gpt("gpt_sdpa", true, false); };
    cases["gpt_sdpa_bfloat16"] = [] { gpt("gpt_sdpa_bfloat16", true, true); };
    cases["gpt2"] = [] { gpt("gpt2", true, false, kGpt2); };
    cases["gpt2_bfloat16"] = [] { gpt("gpt2_bfloat16", true, true, kGpt2); };
  }
  return bench::run_case(argc, argv, cases);
}
