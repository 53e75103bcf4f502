// Learns prices of homes from a table (CSV) with numbers, strings and missing values, on 1..N GPUs.
//   tabular [--data FILE] [--simulate N]
// The file has the columns area, rooms, age, city, garden and price; all but price may be empty. Without a FILE, the
// program first writes a made-up table to a temporary file.
#include <lockstep/lockstep.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "arguments.h"

using namespace lockstep;

const std::vector<std::string> kNumbers = {"area", "rooms", "age"}, kTexts = {"city", "garden"};

// Writes a table of 3000 homes. One age in five and one garden in ten are missing.
void write_homes(const std::filesystem::path& path) {
  const char* const cities[] = {"Oslo", "Bergen", "Tromso", "\"Hamar, west\""};
  const double extra[] = {180, 90, 30, -20};
  std::ofstream out(path);
  out << "city,area,rooms,age,garden,price\n";
  for (int i = 0; i < 3000; ++i) {
    const std::vector<float> u = rand({6}).to_vector<float>();
    const int city = int(4 * u[0]), area = 30 + int(150 * u[1]), rooms = 1 + area / 35, age = int(90 * u[2]);
    const bool garden = u[3] < 0.4f;
    const double price = 40 + 2.5 * area + extra[city] - 0.8 * age + (garden ? 60 : 0) + 20 * randn({}).item<float>();
    out << cities[city] << ',' << area << ',' << rooms << ',';
    if (u[4] > 0.2f) out << age;
    out << ',' << (u[5] < 0.1f ? "" : garden ? "yes" : "no") << ',' << price << '\n';
  }
}

// Scales numbers by the mean and deviation of the known ones. A missing number becomes 0, and a flag marks it.
struct Scale {
  Tensor mean, deviation;

  explicit Scale(const Tensor& x) {
    const Tensor known = (~isnan(x)).to(kFloat32), count = sum(known, {0});
    mean = sum(where(isnan(x), 0, x), {0}) / count;
    deviation = sqrt(sum(where(isnan(x), 0, square(x - mean)), {0}) / count);
  }
  Tensor apply(const Tensor& x) const {
    return cat({where(isnan(x), 0, (x - mean) / deviation), isnan(x).to(kFloat32)}, 1);
  }
};

struct Net : nn::Module<Net> {
  nn::Embedding city, garden;  // embeddings of the strings, found by training
  nn::Sequential body;

  Net(int64_t cities, int64_t gardens)
      : city(cities, 4),
        garden(gardens, 2),
        body{nn::Linear(2 * int64_t(kNumbers.size()) + 6, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(),
             nn::Linear(32, 1)} {}
  auto members() { return nn::members("city", city, "garden", garden, "body", body); }

  Tensor forward(const Tensor& numbers, const Tensor& texts) {
    return body(cat({numbers, city(texts.select(1, 0)), garden(texts.select(1, 1))}, 1)).select(1, 0);
  }
};

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv, {{"--data", "FILE"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    const auto folder = std::filesystem::temp_directory_path();
    std::filesystem::path path = arguments.text("--data");
    if (path.empty()) write_homes(path = folder / "homes.csv");

    // Missing numbers are NaN. Strings become 0, 1, ... in order of appearance; a missing string is a category too.
    const data::Csv table =
        data::read_csv(path, {.missing = std::nan(""), .categories = {{"city", {}}, {"garden", {}}}});
    const Tensor price = table.column("price"), numbers = table.select(kNumbers);
    const Scale scale(numbers);
    const float typical = mean(price).item<float>(), spread = std::sqrt(mean(square(price - typical)).item<float>());
    print("{} homes in {} cities; their prices differ from {} by {}\n", price.size(0),
          table.categories.at("city").size(), std::round(typical), std::round(spread));

    const data::TensorDataset homes(scale.apply(numbers), table.select(kTexts).to(kInt64), (price - typical) / spread);
    auto [known, unseen] = data::random_split(homes, {0.8, 0.2}, {.seed = 1});
    const train::Trainer trainer({.max_epochs = 12});
    const Device device = trainer.devices().front();
    data::DataLoader training(known,
                              {.batch_size = 50, .shuffle = true, .seed = 1, .num_workers = 1, .device = device});
    data::DataLoader validation(unseen, {.batch_size = 200, .device = device});
    Net net(int64_t(table.categories.at("city").size()), int64_t(table.categories.at("garden").size()));
    optim::Adam optimizer(net.parameters(), {.lr = 0.003});
    trainer.fit(net, training,
                {.loss =
                     [&](auto& model, auto& batch, auto& metrics) {
                       auto& [x, texts, target] = batch;
                       const Tensor output = model(x, texts);
                       metrics.add("error", mean(abs(output - target)) * spread);
                       return nn::mse_loss(output, target);
                     },
                 .optimizer = optimizer,
                 .validation = validation});

    // Another table, with the same categories.
    std::ofstream(folder / "new_homes.csv") << "city,area,rooms,age,garden\n"
                                            << table.categories.at("city").back() << ",100,3,,yes\n";
    const data::Csv more =
        data::read_csv(folder / "new_homes.csv", {.missing = std::nan(""), .categories = table.categories});
    const NoGrad no_grad;
    const Tensor output = net(scale.apply(more.select(kNumbers)).to(device), more.select(kTexts).to(device, kInt64));
    print("100 square metres in {}, of unknown age: {}\n", table.categories.at("city").back(),
          std::round(output.item<float>() * spread + typical));
  } catch (const std::exception& error) {
    std::cerr << "tabular: " << error.what() << '\n';
    return 1;
  }
}
