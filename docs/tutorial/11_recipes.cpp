// Chapter 11: recipes.
#include <lockstep/lockstep.h>

#include <algorithm>
#include <thread>
#include <vector>
using namespace lockstep;

struct Backbone : nn::Module<Backbone> {
  nn::Linear fc{4, 8};
  nn::BatchNorm1d norm{8};
  auto members() { return nn::members("fc", fc, "norm", norm); }
  Tensor forward(const Tensor& x) { return relu(norm(fc(x))); }
};

struct Net : nn::Module<Net> {
  Backbone backbone;
  nn::Linear head{8, 3};
  nn::Buffer scale{ones({4})};
  auto members() { return nn::members("backbone", backbone, "head", head, "scale", scale); }
  Tensor forward(const Tensor& x) { return head(backbone(x * scale)); }
};

// A file that somebody trained earlier: names with a prefix, and a head for another task.
StateDict pretrained() {
  StateDict state;
  for (const auto& [name, value] : Backbone().state_dict()) state.add("module.backbone." + name, value);
  state.add("module.projection.weight", zeros({2, 8}));
  return state;
}

const char* yes_or_no(bool holds) { return holds ? "yes" : "no"; }

void fine_tune() {
  Net net;
  const IncompatibleKeys left_out = net.load_state_dict(pretrained(), {.strict = false, .strip_prefix = "module."});
  for (const std::string& key : left_out.missing_keys) print("not in the file: {}\n", key);
  for (const std::string& key : left_out.unexpected_keys) print("not in the model: {}\n", key);

  net.head = nn::Linear(net.head.in_features, 5);  // five classes
  net.backbone.requires_grad_(false);              // frozen
  optim::SGD optimizer(net.head.parameters(), {.lr = 0.1});

  Tensor inputs = randn({6, 4}), classes = tensor({0, 1, 2, 3, 4, 0});
  Tensor weight = net.backbone.fc.weight.clone(), average = net.backbone.norm.running_mean->clone();
  for (int epoch = 0; epoch < 2; ++epoch) {
    net.train();
    net.backbone.eval();  // its running averages stay as they are
    optimizer.zero_grad();
    nn::cross_entropy(net(inputs), classes).backward();
    optimizer.step();
  }
  print("frozen weights are as they were: {}\n", yes_or_no(equal(net.backbone.fc.weight, weight)));
  print("frozen averages are as they were: {}\n", yes_or_no(equal(*net.backbone.norm.running_mean, average)));

  // Later the backbone learns too, more slowly.
  net.backbone.requires_grad_(true);
  optimizer.add_param_group({net.backbone.parameters(), {.lr = 0.01}});
  net.train();
  optimizer.zero_grad();
  nn::cross_entropy(net(inputs), classes).backward();
  optimizer.step();
  print("unfrozen weights are as they were: {}\n", yes_or_no(equal(net.backbone.fc.weight, weight)));

  // The same with two groups from the start. Each group has all of its options.
  optim::SGD both({{net.head.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}},
                   {net.backbone.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4}}});
  print("{} groups, learning rates {} and {}\n", both.group_count(), both.lr(0), both.lr(1));
}

void fine_tune_on_devices() {
  DataParallel model(Net{});
  model.module().backbone.requires_grad_(false);
  Tensor average = model.module().backbone.norm.running_mean->clone();
  model.train();
  model.module().backbone.eval();  // after each train()
  sum(model(randn({6, 4}))).backward();
  print("frozen averages of a DataParallel are as they were: {}\n",
        yes_or_no(equal(*model.module().backbone.norm.running_mean, average)));
}

void replace_and_assign() {
  Net net, other;
  Tensor handle = net.head.weight;
  net.head.weight = other.head.weight;  // copies the elements
  print("still the same tensor: {}\n", yes_or_no(net.head.weight.is_same(handle)));
  net.head = nn::Linear(8, 5);  // another layer, with parameters of its own
  print("still the same tensor: {}\n", yes_or_no(net.head.weight.is_same(handle)));
}

constexpr int64_t kPadding = 0, kBegin = 1, kWords = 12, kLength = 8;

struct Translator : nn::Module<Translator> {
  nn::Embedding words{kWords, 32}, places{kLength, 32};
  nn::Transformer transformer{
      32, 4, {.num_encoder_layers = 2, .num_decoder_layers = 2, .dim_feedforward = 128, .batch_first = true}};
  nn::Linear output{32, kWords};

  auto members() { return nn::members("words", words, "places", places, "transformer", transformer, "output", output); }
  Tensor embedded(const Tensor& text) { return words(text) + places(arange(double(text.size(1)), text.device())); }
  Tensor forward(const Tensor& source, const Tensor& target) {  // [batch, length], [batch, length]
    const Tensor padding = source == kPadding;                  // true where there is no word
    const Tensor later = nn::Transformer::generate_square_subsequent_mask(target.size(1), {.device = target.device()});
    return output(
        transformer(embedded(source), embedded(target),
                    {.tgt_mask = later, .src_key_padding_mask = padding, .memory_key_padding_mask = padding}));
  }
};

// Greedy decoding: each word is the likeliest one after the words before it.
Tensor decode(Translator& net, const Tensor& source, int64_t length) {  // [batch, words] -> [batch, length]
  const NoGrad no_grad;
  net.eval();
  const Tensor padding = source == kPadding;
  const Tensor memory = net.transformer.encoder(net.embedded(source), {.src_key_padding_mask = padding});
  Tensor target = full({source.size(0), 1}, kBegin, source.device());
  while (target.size(1) <= length) {
    const Tensor later = nn::Transformer::generate_square_subsequent_mask(target.size(1), {.device = target.device()});
    const Tensor x =
        net.transformer.decoder(net.embedded(target), memory, {.tgt_mask = later, .memory_key_padding_mask = padding});
    target = cat({target, net.output(x.select(1, -1)).argmax(1, true)}, 1);
  }
  return target.slice(1, 1);
}

// The target has another word for each word of the source.
void sequence_to_sequence() {
  Translator net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.003});
  optim::LambdaLR warm_up(optimizer, [](int64_t step) { return std::min(1., double(step + 1) / 20); });
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    Tensor source = randint(2, kWords, {32, 6});
    source.index_put_({Slice(0, 16), Slice(4, 6)}, kPadding);  // half of them are shorter
    Tensor target = where(source == kPadding, source, kWords + 1 - source);
    Tensor shifted = cat({full({32, 1}, kBegin), target.slice(1, 0, -1)}, 1);  // what is known when a word is due
    Tensor scores = net(source, shifted);                                      // [batch, length, words]
    Tensor loss =
        nn::cross_entropy(scores.flatten(0, 1), target.flatten(), {.ignore_index = kPadding, .label_smoothing = 0.1});
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    warm_up.step();  // after each step, not after each epoch
    if (step == 0) first = loss.item<double>();
    last = loss.item<double>();
  }
  print("scores {}, learning rate {:.4f}, the loss falls: {}\n",
        net(ones({2, 5}, kInt64), ones({2, 7}, kInt64)).sizes(), optimizer.lr(), yes_or_no(last < first));
  print("decoded {}\n", decode(net, randint(2, kWords, {2, 6}), 6).sizes());
}

// Exponential moving average: target = (1 - tau) target + tau policy.
void soft_update(Net& target, const Net& policy, double tau) {
  const NoGrad no_grad;
  std::vector<Tensor> to = target.parameters(), from = policy.parameters();
  for (size_t i = 0; i < to.size(); ++i) to[i].lerp_(from[i], tau);
}

void target_network() {
  Net policy;
  Net target = copy(policy);  // has parameters of its own
  target.requires_grad_(false);

  const NoGrad no_grad;
  policy.head.bias->fill_(1);  // stands for some steps of training
  target.head.bias->fill_(0);
  soft_update(target, policy, 0.25);
  print("after a soft update: {}\n", target.head.bias->detach());
  target.load_state_dict(policy.state_dict());
  print("after a hard update: {}\n", target.head.bias->detach());
}

// A function that only reads takes the module as const: it cannot call forward, which may change buffers.
int64_t count(const Net& net) { return net.num_parameters(); }

// A network over sequences whose batch is dimension 1.
struct Steps : nn::Module<Steps> {
  nn::Linear fc{4, 2};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }  // [steps, batch, 4] -> [steps, batch, 2]
};

int main() {
  manual_seed(11);
  fine_tune();
  fine_tune_on_devices();
  replace_and_assign();
  sequence_to_sequence();
  target_network();

  Net net;
  print("{} parameters\n", count(net));

  // A buffer gets other values by assignment, or in place.
  net.scale = full({4}, 3.);
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
