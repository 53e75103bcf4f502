// Chapter 8: debugging on simulated devices: a race, too little memory, a NaN, a trace.
#include <lockstep/lockstep.h>

#include <map>
#include <sstream>
using namespace lockstep;

const char* yes_or_no(bool holds) { return holds ? "yes" : "no"; }

// Two streams of one device, and nobody waits.
void race() {
  SimulatedDevices devices({.count = 1});
  Tensor x = zeros({1000}, {.device = "cuda:0"});
  synchronize("cuda:0");
  const Stream side = Stream::from_pool("cuda:0");
  {
    const StreamGuard guard(side);
    x.fill_(1);  // on the side stream
  }
  try {
    Tensor y = x + 1;  // on the default stream: may come before or after
  } catch (const RaceError& error) {
    print("RaceError names both: {}\n", yes_or_no(std::string(error.what()).find("fill") != std::string::npos));
  }
  current_stream("cuda:0").wait(side.record());  // the cure: an event
  print("with the wait: {}\n", sum(x + 1).item<double>());
}

void out_of_memory() {
  SimulatedDevices devices({.count = 1, .memory_bytes = 64 << 20});
  Tensor half = zeros({8 << 20}, {.device = "cuda:0"});  // 32 MiB
  try {
    Tensor more = zeros({16 << 20}, {.device = "cuda:0"});  // 64 MiB
  } catch (const OutOfMemory& error) {
    print("asked for {} MiB, {} MiB in use of {} MiB\n", error.sizes.requested >> 20, error.sizes.in_use >> 20,
          error.sizes.limit >> 20);
  }
  print("the peak was {} MiB\n", memory_stats("cuda:0").peak_in_use >> 20);
}

struct Net : nn::Module<Net> {
  nn::Linear fc{4, 1};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }
};

void not_a_number() {
  SimulatedDevices devices({.count = 2});
  manual_seed(1);
  Tensor inputs = randn({40, 4});
  data::DataLoader loader(data::TensorDataset(inputs, sum(inputs, {1}, true)), {.batch_size = 10});
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e9});  // far too large
  const train::Trainer trainer({.max_epochs = 20, .log_every = 1, .progress = {.out = nullptr}});
  try {
    trainer.fit(net, loader,
                {.loss =
                     [](auto& model, auto& batch, auto&) {
                       auto& [input, target] = batch;
                       return nn::mse_loss(model(input), target);
                     },
                 .optimizer = optimizer});
  } catch (const train::Diverged& error) {
    print("Diverged in the first epochs: {}\n", yes_or_no(error.until_step < 20));
  }
  for (const auto& [name, value] : net.state_dict())
    print("{}: finite: {}, greater than 1e9: {}\n", name, yes_or_no(all(isfinite(value)).item<bool>()),
          yes_or_no(max(abs(value)).item<double>() > 1e9));
}

void nan_of_backward() {
  const DetectAnomaly guard;
  Tensor x = zeros({2}, {.requires_grad = true});
  try {
    sum(sqrt(x) * x).backward();  // the slope of sqrt at 0 is infinite, times 0
  } catch (const AutogradError& error) {
    print("the error names Sqrt: {}\n", yes_or_no(std::string(error.what()).find("Sqrt") != std::string::npos));
  }
}

void trace() {
  SimulatedDevices devices({.count = 2});
  DataParallel model(Net{});
  const Trace trace;
  sum(model(randn({8, 4}))).backward();
  for (const Device& device : model.devices()) synchronize(device);
  std::map<std::string, int> launches;
  for (const TraceEvent& event : trace.events()) ++launches[event.device.name()];
  for (const auto& [device, count] : launches) print("{} worked: {}\n", device, yes_or_no(count > 0));
  std::ostringstream json;  // std::ofstream("trace.json") for ui.perfetto.dev
  trace.write_json(json);
}

int main() {
  race();
  out_of_memory();
  not_a_number();
  nan_of_backward();
  trace();
}
