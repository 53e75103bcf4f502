// Chapter 7: saving, resuming, and PyTorch's files.
//   07_files [model.pt]
#include <lockstep/lockstep.h>

#include <filesystem>
using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Linear fc{4, 2};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }
};

// Trains to the end of `epochs`; goes on where the last run in this folder ended.
Net train_in(const std::filesystem::path& folder, int64_t epochs) {
  manual_seed(7);
  Tensor inputs = randn({60, 4});
  data::DataLoader loader(data::TensorDataset(inputs, inputs.narrow(1, 0, 2)),
                          {.batch_size = 20, .shuffle = true, .seed = 1});
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  train::Trainer trainer({.max_epochs = epochs,
                          .checkpoint = {.folder = folder, .every_epochs = 1, .resume = true},
                          .progress = {.out = nullptr}});
  trainer.fit(net, loader,
              {.loss =
                   [](auto& model, auto& batch, auto&) {
                     auto& [input, target] = batch;
                     return nn::mse_loss(model(input), target);
                   },
               .optimizer = optimizer});
  return copy(net);
}

// The same without a Trainer: goes on from the file, if there is one.
Net train_by_hand(const std::filesystem::path& path, int64_t epochs) {
  manual_seed(7);
  Tensor inputs = randn({60, 4});
  data::DataLoader loader(data::TensorDataset(inputs, inputs.narrow(1, 0, 2)),
                          {.batch_size = 20, .shuffle = true, .seed = 1});
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  optim::StepLR schedule(optimizer, {.step_size = 1, .gamma = 0.5});
  int64_t epoch = 0;
  if (std::filesystem::exists(path)) {
    const Checkpoint checkpoint = Checkpoint::load(path);
    net.load_state_dict(checkpoint.tensors("model"));
    optimizer.load_state_dict(checkpoint.tensors("optimizer"));
    schedule.load_state_dict(checkpoint.tensors("schedule"));
    loader.load_state(checkpoint.loader("loader"));
    set_generator(checkpoint.generator("random"));
    epoch = checkpoint.integer("epoch");
  }
  for (; epoch < epochs; ++epoch) {
    for (auto& [input, target] : loader) {
      optimizer.zero_grad();
      nn::mse_loss(net(input), target).backward();
      optimizer.step();
    }
    schedule.step();
  }
  Checkpoint checkpoint;
  checkpoint.put("model", net.state_dict());
  checkpoint.put("optimizer", optimizer.state_dict());
  checkpoint.put("schedule", schedule.state_dict());
  checkpoint.put("loader", loader.state());
  checkpoint.put("random", current_generator());
  checkpoint.put("epoch", epoch);
  checkpoint.save(path);
  return net;
}

int main(int argc, char** argv) {
  const auto folder = std::filesystem::temp_directory_path() / "lockstep_tutorial_07";
  std::filesystem::remove_all(folder);

  // The model alone.
  std::filesystem::create_directories(folder);
  Net net;
  save(net.state_dict(), folder / "net.safetensors");
  Net again;
  again.load_state_dict(load(folder / "net.safetensors"));
  print("loaded: {}\n", all(eq(net.fc.weight, again.fc.weight)).item<bool>() ? "the same" : "different");

  // A whole run: two epochs, and two more in a new Trainer, are four epochs.
  train_in(folder / "halves", 2);
  Net resumed = train_in(folder / "halves", 4);
  Net whole = train_in(folder / "whole", 4);
  print("resumed: {}\n", all(eq(resumed.fc.weight, whole.fc.weight)).item<bool>() ? "the same" : "different");

  // The same by hand.
  train_by_hand(folder / "halves.safetensors", 2);
  resumed = train_by_hand(folder / "halves.safetensors", 4);
  whole = train_by_hand(folder / "whole.safetensors", 4);
  print("resumed by hand: {}\n", equal(resumed.fc.weight, whole.fc.weight) ? "the same" : "different");

  // A model that was saved as a DataParallel has keys that begin with "module.".
  DataParallel parallel(copy(net));
  load_model(again, parallel.state_dict());

  // What torch.save(model.state_dict(), "model.pt") wrote.
  const StateDict state = load(argc > 1 ? argv[1] : "model.pt");
  for (const auto& [name, value] : state) print("{} {}\n", name, value.sizes());
  nn::Sequential model{nn::Linear(2, 3), nn::BatchNorm1d(3)};
  model.load_state_dict(state);
  print("bias {}\n", model[0].as<nn::Linear>().bias->detach());
  std::filesystem::remove_all(folder);
}
