// Chapter 5: the Trainer.
#include <lockstep/lockstep.h>

#include <filesystem>
using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Sequential body{nn::Flatten(), nn::Linear(12 * 12, 64), nn::ReLU(), nn::Linear(64, 10)};
  auto members() { return nn::members("body", body); }
  Tensor forward(const Tensor& x) { return body(x); }
};

int main() {
  manual_seed(1);
  data::SyntheticDigits train_set(2000, {.seed = 1, .image_size = 12}), test_set(500, {.seed = 2, .image_size = 12});
  data::DataLoader loader(train_set, {.batch_size = 50, .shuffle = true, .seed = 1});
  data::DataLoader test_loader(test_set, {.batch_size = 100});

  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.005});
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = 4});
  const auto loss = [](auto& model, auto& batch, auto& metrics) {
    auto& [image, digit] = batch;  // already on model.device()
    Tensor scores = model(image);
    metrics.add("accuracy", mean(eq(argmax(scores, 1), digit).to(kFloat32)));
    return nn::cross_entropy(scores, digit);
  };

  const auto folder = std::filesystem::temp_directory_path() / "lockstep_tutorial_05";
  std::filesystem::create_directories(folder);
  train::EarlyStopping stop({.monitor = "validation_loss", .patience = 2});
  train::ModelCheckpoint best({.path = folder / "best.safetensors", .monitor = "validation_accuracy"});
  train::Trainer trainer({.max_epochs = 4, .gradient_clip_val = 1});
  train::History history = trainer.fit(net, loader,
                                       {.loss = loss,
                                        .optimizer = optimizer,
                                        .schedule = schedule,
                                        .validation = test_loader,
                                        .callbacks = {stop, best}});
  history.write_csv(folder / "history.csv");
  history.write_svg(folder / "history.svg", {.title = "Digits"});

  const double accuracy = history.column("validation_accuracy").back().value();
  print("more than 80% of the test images are right: {}\n", accuracy > 0.8 ? "yes" : "no");
  print("the history has {} rows\n", history.rows());

  net.load_state_dict(load(best.best_model_path()));
  print("the best epoch is above 80%: {}\n", best.best_model_score() > 0.8 ? "yes" : "no");
  std::filesystem::remove_all(folder);
  return accuracy > 0.8 ? 0 : 1;
}
