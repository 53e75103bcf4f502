// What users write, so that the templates of the headers are instantiated: it must compile with more warnings than this
// project has (.ci/run).
#include <lockstep/lockstep.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace lockstep;

struct Block : nn::Module<Block> {
  nn::Linear first, second;
  nn::LayerNorm norm;
  nn::Dropout dropout;
  nn::Parameter scale;
  nn::Buffer calls;
  std::vector<nn::Linear> more;

  explicit Block(std::int64_t width)
      : first(width, 2 * width),
        second(2 * width, width),
        norm(width),
        dropout(0.1),
        scale(ones({width})),
        calls(zeros({})) {
    more.emplace_back(width, width);
  }
  auto members() {
    return nn::members("first", first, "second", second, "norm", norm, "dropout", dropout, "scale", scale, "calls",
                       calls, "more", more);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = dropout(second(relu(first(norm(x)))));
    for (nn::Linear& layer : more) y = layer(y);
    return x + y * scale;
  }
};

struct Output {
  Tensor logits;
  std::optional<Tensor> hidden;
  auto members() { return lockstep::members("logits", logits, "hidden", hidden); }
};

struct Net : nn::Module<Net> {
  nn::Sequential body{nn::Linear(8, 16), nn::Tanh(), Block(16), nn::ReLU()};
  nn::Linear head{16, 4};
  auto members() { return nn::members("body", body, "head", head); }
  Output forward(const Tensor& x, bool with_hidden = true) {
    const Tensor hidden = body(x);
    return {head(hidden), with_hidden ? std::optional(hidden) : std::nullopt};
  }
};

class Points {
 public:
  std::int64_t size() const { return 64; }
  std::pair<Tensor, std::int64_t> get(std::int64_t index) const { return {randn({8}) + double(index), index % 4}; }
};

class Words {
 public:
  std::int64_t size() const { return 64; }
  std::map<std::string, Tensor> get(std::int64_t index) const { return {{"word", full({3}, index)}}; }
};

struct Swish {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T beta) const {
    return x * sigmoid(beta * x);
  }
  template <class T>
  LOCKSTEP_HD std::array<T, 2> gradient(const T& g, const T& x, const T& beta) const {
    const T s = sigmoid(beta * x);
    const T slope = g * x * s * (1 - s);
    return {g * s + beta * slope, x * slope};
  }
};

struct Exponential {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    using elementary::exp;
    return exp(x);
  }
};

struct RmsNorm {
  template <class Team, class T>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> y, RowOf<const T> x) const {
    using C = ComputeType<T>;
    const C squares = sum_over(team, x.length, [&](std::int64_t i) { return C(x[i]) * C(x[i]); });
    const C scale = 1 / std::sqrt(squares / C(x.length) + C(1e-6));
    team.each(x.length, [&](std::int64_t i) { y[i] = T(C(x[i]) * scale); });
  }
};

struct PlainRule {
  double lr;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& m) const {
    m = T(0.9) * m + g;
    p -= T(lr) * m;
  }
};

struct PlainOptions {
  double lr = 0.1;

  static constexpr const char* kName = "Plain";
  void check() const { optim::require_not_negative(kName, {{"lr", lr}}); }
  auto members() { return lockstep::members("lr", lr); }
};

class Plain final : public optim::OptimizerWith<PlainOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<optim::Slot> slots(std::size_t) const override { return {{.name = "momentum"}}; }
  void update(std::size_t group, const optim::Batch& batch) const override {
    optim::apply<0>("plain", 4, PlainRule{options(group).lr}, batch);
  }
};

void by_hand() {
  data::DataLoader loader(Points(), {.batch_size = 16, .shuffle = true, .num_workers = 2});
  DataParallel model(Net{});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  optim::StepLR schedule(optimizer, {.step_size = 2});
  Plain plain(model.parameters(), {.lr = 0.01});
  const auto smoothed = [](const Tensor& logits, const Tensor& target) {
    return nn::cross_entropy(logits, target, {.label_smoothing = 0.1}) + 1e-4 * mean(logits * logits);
  };
  for (auto& [input, target] : loader) {
    optimizer.zero_grad();
    const Output output = model(input);
    const Tensor loss = smoothed(output.logits, target.to(model.device()));
    loss.backward();
    nn::utils::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    plain.step();
    print("loss {:.4f} of {} and {}\n", loss.item<float>(), output.logits.sizes(), output.logits.argmax(1));
  }
  schedule.step();
  for (const auto& batch : data::DataLoader(Words(), {.batch_size = 4})) print("{}\n", batch.at("word"));
  save(model.state_dict(), "weights.safetensors");
}

void by_trainer() {
  data::DataLoader loader(Points(), {.batch_size = 16});
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  const auto loss = [](auto& model, auto& batch, auto& metrics) {
    auto& [input, target] = batch;
    const Output output = model(input, false);
    metrics.add("accuracy", mean(eq(argmax(output.logits, 1), target).to(kFloat32)));
    return nn::cross_entropy(output.logits, target);
  };
  const train::Trainer trainer({.max_epochs = 2});
  trainer.fit(net, loader, {.loss = loss, .optimizer = optimizer, .validation = loader});
}

void tensors() {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}).requires_grad_(), beta = tensor(std::vector<float>{1.0f, 2.0f});
  const Tensor y = extend::elementwise("swish", Swish(), x, beta) + extend::map("exponential", Exponential(), x);
  const Tensor z = extend::map_rows("rms_norm", RmsNorm(), {.dim = -1}, y.detach());
  sum(y * z + x[0] - 3 * x.index({Slice(0, 1), 1})).backward();
  print("{} {} {}\n", x.grad(), y.to_vector<float>().size(), std::vector<Half>{Half(1.5f), Half(2.0f)}.size());
}

}  // namespace

int main() {
  by_hand();
  by_trainer();
  tensors();
}
