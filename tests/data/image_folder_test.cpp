// ImageFolder: the order is torchvision's, and images have three channels.
#include <lockstep/data/image_folder.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/data/datasets.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/transforms.h>
#include <lockstep/tensor/creation.h>

#include "support/temporary_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

void put_image(const fs::path& path, std::int64_t channels, int value) {
  fs::create_directories(path.parent_path());
  write_png(path, full({channels, 2, 3}, value, {.dtype = kUInt8}));
}

template <class Body>
std::string folder_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Order by class, folder and name, compared as bytes: "a10" before "a9", and "B" before "a".
TEST(ImageFolder, GivesClassesAndSamplesInTorchvisionsOrder) {
  const TemporaryFolder folder;
  int value = 0;
  for (const char* name :
       {"bee/z.png", "bee/a9.PNG", "bee/a10.png", "bee/more/b.png", "bee/Bee.png", "ant/x.jpeg", "Cow/c.Jpg"})
    put_image(folder / name, 3, ++value);
  testing::write_file(folder / "bee/notes.txt", "no image");
  testing::write_file(folder / "list.png", "in no class");
  const ImageFolder dataset(folder.path());
  EXPECT_EQ(dataset.classes(), (std::vector<std::string>{"Cow", "ant", "bee"}));
  std::vector<std::string> names;
  std::vector<std::int64_t> labels;
  for (const auto& [path, label] : dataset.samples()) {
    names.push_back(path.lexically_relative(folder.path()).string());
    labels.push_back(label);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"Cow/c.Jpg", "ant/x.jpeg", "bee/Bee.png", "bee/a10.png", "bee/a9.PNG",
                                             "bee/z.png", "bee/more/b.png"}));
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 1, 2, 2, 2, 2, 2}));
  EXPECT_EQ(dataset.size(), 7);
}

TEST(ImageFolder, GivesThreeChannels) {
  if (!reads_png()) GTEST_SKIP() << "built without libpng";
  const TemporaryFolder folder;
  for (int channels = 1; channels <= 4; ++channels)
    put_image(folder / ("c" + std::to_string(channels) + "/x.png"), channels, 10 * channels);
  const ImageFolder dataset(folder.path());
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto [image, label] = dataset.get(i);
    EXPECT_EQ(image.sizes(), (Shape{3, 2, 3}));
    EXPECT_EQ(image.to_vector<std::uint8_t>(), std::vector<std::uint8_t>(18, std::uint8_t(10 * (i + 1))));
    EXPECT_EQ(label, i);
  }
  EXPECT_THROW(dataset.get(4), InvalidArgument);
  DataLoader loader(MapDataset(dataset, transforms::ToFloat()), {.batch_size = 4});
  for (const auto& [images, labels] : loader) {
    EXPECT_EQ(images.sizes(), (Shape{4, 3, 2, 3}));
    EXPECT_EQ(labels.template to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  }
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_NE(
      folder_error([&] { ImageFolder(folder.path()); }).find("[ImageFolder] expected a folder for each class in "),
      std::string::npos);
  fs::create_directories(folder / "ant");
  EXPECT_NE(folder_error([&] {
              ImageFolder(folder.path());
            }).find("[ImageFolder] expected images (*.png, *.jpg, *.jpeg) of each class, got none in "),
            std::string::npos);
  EXPECT_THROW(ImageFolder(folder / "missing"), IoError);
}

}  // namespace
}  // namespace lockstep::data
