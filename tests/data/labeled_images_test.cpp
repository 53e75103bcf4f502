// Readers of MNIST and CIFAR-10 files, which the tests make byte by byte as the formats specify.
#include <lockstep/data/labeled_images.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/core/error.h>

#include "support/temporary_folder.h"

namespace lockstep::data {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing::TemporaryFolder;

std::string big_endian(std::uint32_t number) {
  return {char(number >> 24), char(number >> 16), char(number >> 8), char(number)};
}

constexpr auto& put = testing::write_file;

std::string images_file(std::uint32_t count, std::uint32_t height, std::uint32_t width, const std::string& data) {
  return big_endian(0x803) + big_endian(count) + big_endian(height) + big_endian(width) + data;
}
std::string labels_file(const std::string& labels) {
  return big_endian(0x801) + big_endian(std::uint32_t(labels.size())) + labels;
}

std::string failure(const std::filesystem::path& folder, LabeledImages (*read)(const std::filesystem::path&, Part)) {
  try {
    read(folder, Part::train);
  } catch (const Error& error) {
    const std::string what = error.what(), path = folder.string() + '/';
    const std::size_t at = what.find(path);
    return at == what.npos ? what : what.substr(0, at) + what.substr(at + path.size());
  }
  return "";
}

TEST(ReadMnist, GivesImagesWithOneChannelAndInt64Labels) {
  const TemporaryFolder folder;
  put(folder / "t10k-images-idx3-ubyte", images_file(2, 1, 3, "abcdef"));
  put(folder / "t10k-labels-idx1-ubyte", labels_file("\7\1"));
  const LabeledImages set = read_mnist(folder.path(), Part::test);
  EXPECT_EQ(set.images.sizes(), (Shape{2, 1, 1, 3}));
  EXPECT_EQ(set.images.to_vector<std::uint8_t>(), (Bytes{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(set.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 1}));
}

TEST(ReadMnist, FindsFilesWhereOthersPutThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "MNIST/raw");
  put(folder / "MNIST/raw/train-images-idx3-ubyte", images_file(1, 1, 1, "a"));
  put(folder / "train-labels.idx1-ubyte", labels_file("\5"));
  EXPECT_EQ(read_mnist(folder.path(), Part::train).labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{5}));
}

TEST(ReadMnist, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_EQ(failure(folder.path(), read_mnist),
            "[open] failed on train-images-idx3-ubyte with errno 2: No such file or directory");
  put(folder / "train-images-idx3-ubyte.gz", "");
  EXPECT_NE(failure(folder.path(), read_mnist).find("[read_mnist] expected unpacked files, got"), std::string::npos);
}

TEST(ReadMnist, RefusesWhatBreaksTheFormat) {
  const TemporaryFolder folder;
  put(folder / "train-labels-idx1-ubyte", labels_file("\5"));
  const struct {
    std::string images, expected;
  } cases[] = {
      {"short", "[train-images-idx3-ubyte] at byte 0: expected an idx header of 16 bytes, got a file of 5"},
      {big_endian(0x801) + std::string(12, '\0'),
       "[train-images-idx3-ubyte] at byte 0: expected the number 2051 of idx files with bytes in 3 dimensions, "
       "got 2049"},
      {images_file(1, 2, 2, "abc"),
       "[train-images-idx3-ubyte] at byte 4: expected sizes that fit the 3 bytes of data, got [1, 2, 2]"},
      {images_file(0xffffffff, 0xffffffff, 0xffffffff, "abc"),
       "[train-images-idx3-ubyte] at byte 4: expected sizes that fit the 3 bytes of data, got [4294967295, 4294967295, "
       "4294967295]"},
      {images_file(0, 0xffffffff, 0xffffffff, ""),
       "[train-images-idx3-ubyte] at byte 4: expected sizes that fit the 0 bytes of data, got [0, 4294967295, "
       "4294967295]"},
      {images_file(1, 1, 2, "abc"),
       "[train-images-idx3-ubyte] at byte 4: expected sizes that fit the 3 bytes of data, got [1, 1, 2]"},
      {images_file(2, 1, 1, "ab"), "[train-labels-idx1-ubyte] at byte 4: expected a label for each of 2 images, got 1"},
  };
  for (const auto& wrong : cases) {
    put(folder / "train-images-idx3-ubyte", wrong.images);
    EXPECT_EQ(failure(folder.path(), read_mnist), wrong.expected);
  }
}

TEST(ReadCifar10, GivesAllBatchesInOrder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "cifar-10-batches-bin");
  for (char batch = 1; batch <= 5; ++batch)
    put(folder / ("cifar-10-batches-bin/data_batch_" + std::to_string(int(batch)) + ".bin"),
        char(9 - batch) + std::string(3072, char(10 * batch)));
  const LabeledImages set = read_cifar10(folder.path(), Part::train);
  EXPECT_EQ(set.images.sizes(), (Shape{5, 3, 32, 32}));
  EXPECT_EQ(set.images[3][2][31][31].item<int>(), 40);
  EXPECT_EQ(set.labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{8, 7, 6, 5, 4}));
}

TEST(ReadCifar10, RefusesWhatBreaksTheFormat) {
  const TemporaryFolder folder;
  const std::string record = '\1' + std::string(3072, 'x');
  for (int batch = 1; batch <= 5; ++batch) put(folder / ("data_batch_" + std::to_string(batch) + ".bin"), record);
  put(folder / "data_batch_2.bin", record + "rest");
  EXPECT_EQ(failure(folder.path(), read_cifar10),
            "[data_batch_2.bin] at byte 3073: expected records of 3073 bytes, got 4 bytes at the end");
  put(folder / "data_batch_2.bin", record + '\12' + std::string(3072, 'x'));
  EXPECT_EQ(failure(folder.path(), read_cifar10),
            "[data_batch_2.bin] at byte 3073: expected a label from 0 to 9, got 10");
}

TEST(ReadBytes, GivesAFileAsItIs) {
  const TemporaryFolder folder;
  put(folder / "text", std::string("a\0\xff", 3));
  EXPECT_EQ(read_bytes(folder / "text").to_vector<std::uint8_t>(), (Bytes{'a', 0, 255}));
  put(folder / "nothing", "");
  EXPECT_EQ(read_bytes(folder / "nothing").sizes(), (Shape{0}));
  EXPECT_THROW(read_bytes(folder / "missing"), IoError);
  EXPECT_THROW(read_bytes(folder.path()), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::data
