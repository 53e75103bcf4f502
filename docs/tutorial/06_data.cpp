// Chapter 6: data.
#include <lockstep/lockstep.h>

#include <filesystem>
#include <fstream>
#include <tuple>
using namespace lockstep;

class Squares {  // a Dataset: size() and get(index), no base class
 public:
  explicit Squares(int64_t count) : count_(count) {}
  int64_t size() const { return count_; }
  std::tuple<Tensor, int64_t> get(int64_t index) const { return {full({2}, double(index)), index * index}; }

 private:
  int64_t count_;
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

  // A table in a file.
  const auto path = std::filesystem::temp_directory_path() / "lockstep_tutorial_06.csv";
  std::ofstream(path) << "rooms,area,price\n2,50.5,200\n3,,260\n4,90,350\n";
  const data::Csv table = data::read_csv(path, {.columns = {"area", "price"}, .missing = 0});
  print("{}\n", table.values);
  std::filesystem::remove(path);
}
