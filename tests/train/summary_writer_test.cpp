// The event files for TensorBoard. tensorboard_test.cmake tests that TensorBoard reads them.
#include <lockstep/report/summary_writer.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/data/image.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/indexing.h>

#include "io/png_bytes.h"
#include "support/temporary_folder.h"
#include "support/values.h"

namespace lockstep::train {
namespace {

using testing::contents;
using testing::TemporaryFolder;

Tensor checkers() {
  std::vector<float> pixels;
  for (int channel = 0; channel < 3; ++channel)
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < 12; ++x) pixels.push_back(channel == 0 ? float((x + y) % 2) : float(x) / 11);
  return tensor(pixels).view({3, 8, 12});
}

// For tensorboard_test.cmake, which sets the folder.
TEST(SummaryWriter, WritesRunsForOthers) {
  const char* const folder = std::getenv("LOCKSTEP_INTEROP_FOLDER");
  if (!folder) GTEST_SKIP() << "LOCKSTEP_INTEROP_FOLDER is not set";
  const SimulatedDevices devices({.count = 1});
  SummaryWriter writer(std::filesystem::path(folder) / "run", {.filename_suffix = ".test"});
  for (int step = 0; step < 100; ++step) writer.add_scalar("loss/train", 1. / (1 + step), {step, 1000. + step});
  writer.add_scalar("loss/train", NAN, 100);
  writer.add_scalar("große Zahl", 1e300, -1);
  writer.add_histogram("weights", tensor({0., 1., 1., 2., 2., 2., 4.}).cuda(), 7, 4);
  writer.add_histogram("same", full({5}, 3.), 8);
  writer.add_text("notes", "**bold** and ü", 3);
  writer.add_image("checkers", checkers(), 5);
  writer.add_image("grey", (checkers()[0] * 255).to(kUInt8), 6);
  History history;
  history.add_row(std::vector<History::Value>{{"epoch", 1}, {"step", 10}, {"seconds", 2.5}, {"train_accuracy", 0.5}});
  history.add_row(std::vector<History::Value>{{"epoch", 2}, {"step", 20}, {"seconds", 5}, {"train_accuracy", 0.75}});
  writer.add_history(history, 2000.);
}

TEST(SummaryWriter, RefusesWhatItCannotShowAndWritesNothing) {
  const TemporaryFolder folder;
  SummaryWriter writer(folder / "run");
  const Tensor values = tensor({1., 2.});
  EXPECT_THROW(writer.add_scalar("", 1), InvalidArgument);
  EXPECT_THROW(writer.add_histogram("h", Tensor()), InvalidArgument);
  EXPECT_THROW(writer.add_histogram("h", zeros({0})), InvalidArgument);
  EXPECT_THROW(writer.add_histogram("h", values, 0, 0), InvalidArgument);
  EXPECT_THROW(writer.add_histogram("h", tensor({1., double(INFINITY)})), InvalidArgument);
  EXPECT_THROW(writer.add_image("i", values), ShapeError);
  EXPECT_THROW(writer.add_image("i", zeros({5, 2, 2})), ShapeError);
  EXPECT_THROW(writer.add_image("i", zeros({3, 0, 2})), ShapeError);
  EXPECT_THROW(writer.add_image("i", zeros({2, 2}, {.dtype = kInt64})), DTypeError);
  EXPECT_THROW(SummaryWriter(folder / "run", {.filename_suffix = "/x"}), InvalidArgument);
  writer.flush();
  EXPECT_LT(contents(writer.file()).size(), 50u);  // only the version record
}

TEST(SummaryWriter, RefusesToAddWhenItIsClosedOrMovedFrom) {
  const TemporaryFolder folder;
  SummaryWriter writer(folder / "run");
  SummaryWriter other = std::move(writer);
  EXPECT_THROW(writer.add_scalar("a", 1), InvalidArgument);
  other.close();
  other.close();
  EXPECT_THROW(other.add_scalar("a", 1), InvalidArgument);
}

TEST(SummaryWriter, GivesEachWriterOfAFolderAFileOfItsOwn) {
  const TemporaryFolder folder;
  const SummaryWriter one(folder / "run"), two(folder / "run");
  EXPECT_NE(one.file(), two.file());
  EXPECT_TRUE(one.file().filename().string().starts_with("events.out.tfevents."));
}

TEST(SummaryWriter, ReportsAFolderThatCannotBeMade) {
  const TemporaryFolder folder;
  testing::write_file(folder / "file", "");
  EXPECT_THROW(SummaryWriter(folder / "file" / "run"), IoError);
}

TEST(SummaryWriter, FlushesWithTheFirstValueAfterItsTime) {
  const TemporaryFolder folder;
  SummaryWriter writer(folder / "run", {.flush_secs = 0});
  const std::size_t before = contents(writer.file()).size();
  writer.add_scalar("a", 1);
  EXPECT_GT(contents(writer.file()).size(), before);
}

TEST(PngBytes, ReadBackAsTheSamePixels) {
  const TemporaryFolder folder;
  for (const int channels : {1, 2, 3, 4}) {
    std::vector<std::uint8_t> pixels;  // larger than one stored block
    for (int i = 0; i < 211 * 150 * channels; ++i) pixels.push_back(std::uint8_t(i * 7 + i / 211));
    testing::write_file(folder / "image.png", png_bytes(pixels, 211, 150, channels));
    Tensor image;
    try {
      image = data::read_image(folder / "image.png");
    } catch (const InvalidArgument& error) {
      GTEST_SKIP() << error.what();  // built without libpng
    }
    ASSERT_EQ(image.sizes(), (Shape{channels, 150, 211}));
    const auto read = image.to_vector<std::uint8_t>();
    for (std::size_t place = 0; place < 150 * 211; ++place)
      for (std::size_t channel = 0; channel < std::size_t(channels); ++channel)
        ASSERT_EQ(read[channel * 150 * 211 + place], pixels[place * std::size_t(channels) + channel]);
  }
}

}  // namespace
}  // namespace lockstep::train
