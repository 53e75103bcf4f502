// Trains a small GPT on the bytes of a text on 1..N GPUs, and generates text. Without a FILE, the text consists of sums
// such as "7+8=15", one per line, and the generated sums are checked.
//   gpt [--data FILE] [--steps N] [--simulate N] [--shard none|optimizer_state|gradients|parameters]
#include "models/gpt.h"

#include <iostream>
#include <sstream>
#include <string>

#include "arguments.h"

using namespace lockstep;

constexpr std::int64_t kLength = 64, kBatch = 16;

std::string sums(std::int64_t lines) {
  const auto numbers = randint(0, 10, {lines, 2}).to_vector<std::int64_t>();
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); i += 2)
    text += std::to_string(numbers[i]) + '+' + std::to_string(numbers[i + 1]) + '=' +
            std::to_string(numbers[i] + numbers[i + 1]) + '\n';
  return text;
}

Tensor tokens_of(const std::string& text) {
  return tensor(std::vector<std::int64_t>(reinterpret_cast<const unsigned char*>(text.data()),
                                          reinterpret_cast<const unsigned char*>(text.data()) + text.size()));
}

// Generates bytes up to `end`, at most `count`: each is the likeliest one, or, with `draw`, one drawn by its
// probability.
std::string written(Gpt& net, const std::string& start, std::int64_t count, bool draw, char end) {
  const NoGrad guard;
  const Device device = net.wte.weight.device();
  std::string text = start;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string seen = text.substr(text.size() > std::size_t(kLength) ? text.size() - std::size_t(kLength) : 0);
    const Tensor scores = net(tokens_of(seen).unsqueeze(0).to(device)).select(1, -1);
    // The argmax of scores plus Gumbel noise is distributed by the probabilities.
    const Tensor noise = -log(-log(rand({1, 256}) * 0.999 + 5e-4)).to(device);
    const char next = char(argmax(draw ? scores + noise : scores, 1).item<std::int64_t>());
    text += next;
    if (next == end) break;
  }
  return text.substr(start.size());
}

// Parses the name of a level of sharding (docs/sharding.md).
Shard level(const std::string& name) {
  for (const Shard shard : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters})
    if ((std::ostringstream() << shard).str() == name) return shard;
  throw InvalidArgument("expected --shard none, optimizer_state, gradients or parameters, got " + name);
}

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv,
                              {{"--data", "FILE"}, {"--steps", "N"}, {"--simulate", "N"}, {"--shard", "LEVEL"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    const bool given = arguments.has("--data");
    const Tensor text = given ? data::read_bytes(arguments.text("--data")).to(kInt64) : tokens_of(sums(20000));
    if (text.size(0) <= kLength) throw InvalidArgument("expected a text of more than 64 bytes");

    DataParallel model(Gpt({.vocabulary = 256, .length = kLength, .width = 64, .heads = 4, .layers = 2}),
                       {.shard = arguments.has("--shard") ? level(arguments.text("--shard")) : Shard::none});
    optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
    const std::int64_t steps = arguments.number("--steps", 1500);
    optim::CosineAnnealingLR schedule(optimizer, {.T_max = steps});
    print("Training on {} device(s), {} bytes\n", model.devices().size(), text.size(0));
    for (std::int64_t step = 1; step <= steps; ++step) {
      const Tensor starts = randint(0, text.size(0) - kLength, {kBatch, 1});
      const Tensor place = starts + arange(double(kLength), {.dtype = kInt64});
      const Tensor seen = index_select(text, 0, place.flatten()).view({kBatch, kLength});
      const Tensor next = index_select(text, 0, (place + 1).flatten());
      optimizer.zero_grad();
      const Tensor loss = nn::cross_entropy(model(seen).view({-1, 256}), next.to(model.device()));
      loss.backward();
      optimizer.step();
      schedule.step();
      if (step % 200 == 0 || step == steps) print("step {}: loss {}\n", step, loss.item<double>());
    }

    if (given) {
      print("{}\n", written(model.module(), "\n", 400, true, '\0'));
      return 0;
    }
    int right = 0;
    for (int i = 0; i < 100; ++i) {
      const auto numbers = randint(0, 10, {2}).to_vector<std::int64_t>();
      const std::string question = std::to_string(numbers[0]) + '+' + std::to_string(numbers[1]) + '=';
      const std::string answer = written(model.module(), '\n' + question, 4, false, '\n');
      if (i < 3) print("{}{}", question, answer);
      right += answer == std::to_string(numbers[0] + numbers[1]) + '\n';
    }
    print("{} of 100 sums are right\n", right);
  } catch (const std::exception& error) {
    std::cerr << "gpt: " << error.what() << '\n';
    return 1;
  }
}
