// Images that Pillow wrote (tests/data/files): pixels, and what is refused. Without a library, the error that says so.
#include <lockstep/data/image.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/core/error.h>

#include "support/temporary_folder.h"

namespace lockstep::data {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing::contents;
using testing::TemporaryFolder;

std::string image_file(const std::string& name) { return LOCKSTEP_DATA_FILES_FOLDER "/" + name; }

template <class Body>
std::string image_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class ReadPng : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reads_png()) GTEST_SKIP() << "built without libpng";
  }
};
class ReadJpeg : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reads_jpeg()) GTEST_SKIP() << "built without libjpeg";
  }
};

TEST_F(ReadPng, GivesTheChannelsOfTheFile) {
  const std::pair<const char*, std::int64_t> files[] = {{"L.png", 1}, {"LA.png", 2}, {"RGB.png", 3}, {"RGBA.png", 4}};
  for (const auto& [name, channels] : files) {
    const Tensor image = read_image(image_file(name));
    ASSERT_EQ(image.sizes(), (Shape{channels, 4, 3})) << name;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < 4; ++y)
        for (std::int64_t x = 0; x < 3; ++x) EXPECT_EQ(image[c][y][x].item<int>(), 40 * y + 20 * x + 7 * c) << name;
  }
}

TEST_F(ReadPng, GivesColoursOfAPaletteAndEightOfOtherBits) {
  const Tensor palette = read_image(image_file("palette.png"));
  ASSERT_EQ(palette.sizes(), (Shape{3, 4, 3}));
  EXPECT_EQ(palette.select(2, 1).select(1, 0).to_vector<std::uint8_t>(), (Bytes{40, 50, 60}));
  EXPECT_EQ(read_image(image_file("sixteen_bits.png"))[0][3].to_vector<std::uint8_t>(), (Bytes{120, 140, 160}));
  EXPECT_EQ(read_image(image_file("one_bit.png"))[0][1].to_vector<std::uint8_t>(), (Bytes{0, 0, 255}));
}

// The colour is one that JPEG keeps to within rounding.
TEST_F(ReadJpeg, GivesPixels) {
  for (const char* name : {"colour.jpg", "progressive.jpg", "grey.jpg"}) {
    const Tensor image = read_image(image_file(name));
    const std::int64_t channels = name[0] == 'g' ? 1 : 3;
    ASSERT_EQ(image.sizes(), (Shape{channels, 9, 17})) << name;
    for (std::int64_t c = 0; c < channels; ++c)
      for (const std::uint8_t value : image[c].to_vector<std::uint8_t>()) EXPECT_NEAR(value, 200 >> c, 3) << name;
  }
  EXPECT_NE(image_error([] { read_image(image_file("cmyk.jpg")); }).find("expected a JPEG, got one in CMYK"),
            std::string::npos);
}

TEST(ReadImage, RefusesOtherFiles) {
  EXPECT_NE(
      image_error([] { read_image(image_file("f4.npy")); }).find("at byte 0: expected a PNG or a JPEG, got neither"),
      std::string::npos);
  EXPECT_THROW(read_image(image_file("missing.png")), IoError);
}

void expect_every_beginning_refused(const std::string& name) {
  const TemporaryFolder folder;
  const std::string bytes = contents(image_file(name));
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 64) {
    testing::write_file(folder / "cut", bytes.substr(0, size));
    EXPECT_THROW(read_image(folder / "cut"), FormatError) << name << " at " << size;
  }
}

TEST_F(ReadPng, RefusesEveryBeginningOfAFile) { expect_every_beginning_refused("RGB.png"); }
TEST_F(ReadJpeg, RefusesEveryBeginningOfAFile) { expect_every_beginning_refused("grey.jpg"); }

TEST_F(ReadPng, RefusesDamage) {
  const TemporaryFolder folder;
  std::string bytes = contents(image_file("RGB.png"));
  bytes[bytes.find("IDAT") + 6] ^= 1;
  testing::write_file(folder / "x.png", bytes);
  EXPECT_NE(image_error([&] { read_image(folder / "x.png"); }).find("expected a PNG, got an error: "),
            std::string::npos);
}

TEST_F(ReadPng, RefusesMorePixelsThanAllowed) {
  const std::string error = image_error([] { read_image(image_file("RGB.png"), {.max_pixels = 11}); });
  EXPECT_EQ(error.substr(0, error.find(" in ")), "[read_image] expected at most 11 pixels, got 3 by 4");
}

}  // namespace
}  // namespace lockstep::data
