// Chapter 6: data.
#include <lockstep/lockstep.h>

#include <filesystem>
#include <fstream>
#include <tuple>
#include <vector>
using namespace lockstep;

class Squares {  // a Dataset: size() and get(index), no base class
 public:
  explicit Squares(int64_t count) : count_(count) {}
  int64_t size() const { return count_; }
  std::tuple<Tensor, int64_t> get(int64_t index) const { return {full({2}, double(index)), index * index}; }

 private:
  int64_t count_;
};

// The type of a dataset depends on its parts: return auto.
auto numbers_and_squares(int64_t count) {
  Tensor numbers = arange(double(count), kFloat32);
  return data::TensorDataset(numbers, numbers * numbers);
}

// A function of any loader: a template.
template <class Loader>
int64_t count_rows(Loader& loader) {
  int64_t rows = 0;
  for (auto& [input, target] : loader) rows += input.size(0);
  return rows;
}

// A member whose type is that of the function's result.
struct Experiment {
  decltype(numbers_and_squares(1)) dataset = numbers_and_squares(10);
};

class Sentences {  // of 2, 3, 4, ... words
 public:
  int64_t size() const { return 4; }
  std::tuple<Tensor, int64_t> get(int64_t index) const { return {full({index + 2}, index + 1), index % 2}; }
};

int main() {
  manual_seed(1);
  data::DataLoader loader(Squares(7), {.batch_size = 3});
  for (auto& [input, square] : loader) print("input {}, squares {}\n", input.sizes(), square);

  // Tensors are a dataset of their rows.
  data::TensorDataset dataset(rand({100, 3, 8, 8}), randint(0, 10, {100}));
  auto [train_set, test_set] = data::random_split(dataset, {0.8, 0.2}, {.seed = 1});
  print("{} to train, {} to test\n", train_set.size(), test_set.size());

  // A transform changes each image when it is read. Workers read ahead.
  using namespace data::transforms;
  Compose prepare(RandomCrop({8, 8}, {.padding = 1}), RandomHorizontalFlip(), Normalize({0.5}, {0.25}));
  data::MapDataset augmented(train_set, prepare);
  data::DataLoader batches(augmented, {.batch_size = 32, .shuffle = true, .seed = 1, .num_workers = 2});
  for (auto& [images, labels] : batches) print("images {}, labels {}\n", images.sizes(), labels.sizes());

  // One random number decides for the image and its mask.
  const Normalize to_unit({0.5}, {0.25});
  data::TensorDataset scans(rand({20, 1, 4, 4}), randint(0, 2, {20, 1, 4, 4}));
  data::MapDataset turned(scans, [=](Tensor image, Tensor mask) {
    if (rand({1}).item<double>() < 0.5) {
      image = flip(image, {2});
      mask = flip(mask, {2});
    }
    return std::tuple(to_unit(image), mask);
  });
  data::DataLoader pairs(turned, {.batch_size = 10, .shuffle = true, .seed = 1, .num_workers = 2});
  for (auto& [images, masks] : pairs) print("images {}, masks {}\n", images.sizes(), masks.sizes());

  // Sequences of several lengths are padded to the longest of the batch.
  const auto padded = [](std::vector<std::tuple<Tensor, int64_t>> samples) {
    std::vector<Tensor> texts;
    std::vector<int64_t> lengths, labels;
    for (const auto& [text, label] : samples) {
      texts.push_back(text);
      lengths.push_back(text.size(0));
      labels.push_back(label);
    }
    return std::tuple(nn::utils::rnn::pad_sequence(texts, true), tensor(lengths), tensor(labels));
  };
  data::DataLoader sentences(Sentences(), {.batch_size = 2}, padded);
  for (auto& [texts, lengths, labels] : sentences) print("{}, lengths {}\n", texts, lengths);

  data::DataLoader of_experiment(Experiment().dataset, {.batch_size = 4});
  print("{} rows\n", count_rows(of_experiment));

  // A table in a file.
  const auto path = std::filesystem::temp_directory_path() / "lockstep_tutorial_06.csv";
  std::ofstream(path) << "rooms,area,price\n2,50.5,200\n3,,260\n4,90,350\n";
  const data::Csv table = data::read_csv(path, {.columns = {"area", "price"}, .missing = 0});
  print("{}\n", table.values);
  std::filesystem::remove(path);
}
