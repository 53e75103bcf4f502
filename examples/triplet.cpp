// Trains a network on 1..N GPUs to embed images of the same digit close to each other, by triplets (Schroff,
// Kalenichenko, Philbin 2015: FaceNet); then classifies test images by their nearest neighbour among the training
// images.
//   triplet [--data FOLDER] [--epochs N] [--samples N] [--simulate N]
#include <lockstep/lockstep.h>

#include <iostream>
#include <random>
#include <vector>

#include "image_sets.h"

using namespace lockstep;

// An anchor image, another image of its digit (positive), and one of another digit (negative).
class Triplets {
 public:
  explicit Triplets(const data::TensorDataset<2>& images) : images_(images), places_(10) {
    for (std::int64_t i = 0; i < images.size(); ++i) places_[digit(i)].push_back(i);
  }
  std::int64_t size() const { return images_.size(); }
  std::tuple<Tensor, Tensor, Tensor> get(std::int64_t index) const {
    std::minstd_rand random(std::uint32_t(index + 1));  // the same triplets in each epoch
    const std::size_t own = digit(index);
    std::int64_t other = index;
    while (digit(other) == own) other = std::int64_t(random() % std::uint64_t(size()));
    return {image(index), image(places_[own][random() % places_[own].size()]), image(other)};
  }

 private:
  Tensor image(std::int64_t index) const { return std::get<0>(images_.get(index)); }
  std::size_t digit(std::int64_t index) const { return std::get<1>(images_.get(index)).item<std::size_t>(); }

  data::TensorDataset<2> images_;
  std::vector<std::vector<std::int64_t>> places_;  // indices of each digit's images
};

// Embeds images as points on a sphere in 16 dimensions.
struct Embedder : nn::Module<Embedder> {
  nn::Sequential body{nn::Conv2d(1, 8, 3, {.stride = 2, .padding = 1}),
                      nn::ReLU(),
                      nn::Conv2d(8, 16, 3, {.stride = 2, .padding = 1}),
                      nn::ReLU(),
                      nn::Flatten(),
                      nn::Linear(16 * 7 * 7, 16)};
  auto members() { return nn::members("body", body); }
  Tensor forward(const Tensor& images) { return normalize(body(images)); }
};

// All images, and their digits.
auto whole(const data::TensorDataset<2>& set) {
  return set.get_batch(arange(double(set.size())).to_vector<std::int64_t>());
}

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv,
                              {{"--data", "FOLDER"}, {"--epochs", "N"}, {"--samples", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    const ImageSets sets = digits(arguments, 1500);
    data::DataLoader loader(Triplets(sets.training), {.batch_size = 50, .shuffle = true, .seed = 1});
    DataParallel model(Embedder{});
    optim::Adam optimizer(model.parameters(), {.lr = 2e-3});
    print("Training on {} device(s)\n", model.devices().size());

    const std::int64_t epochs = arguments.number("--epochs", 4);
    for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
      Tensor total = zeros({}, model.device());
      for (const auto& [anchor, positive, negative] : loader) {
        optimizer.zero_grad();
        const std::int64_t rows = anchor.size(0);  // all three in one pass
        const Tensor points = model(cat({anchor, positive, negative}).to(model.device()));
        const Tensor loss = triplet_margin_loss(points.slice(0, 0, rows), points.slice(0, rows, 2 * rows),
                                                points.slice(0, 2 * rows, 3 * rows), {.margin = 0.5});
        loss.backward();
        optimizer.step();
        total += loss.detach();
      }
      print("epoch {}: loss {:.4f}\n", epoch, total.item<double>() / double(loader.size()));
    }

    const NoGrad guard;
    model.eval();
    const auto [images, known] = whole(sets.training);
    const auto [tests, wanted] = whole(sets.test);
    const Tensor distances = cdist(model(tests.to(model.device())), model(images.to(model.device())));
    const Tensor right = known[distances.argmin(1).cpu()] == wanted;
    print("{} of {} test images have a nearest neighbour of their digit\n", right.sum().item<int>(), right.numel());
  } catch (const std::exception& error) {
    std::cerr << "triplet: " << error.what() << '\n';
    return 1;
  }
}
