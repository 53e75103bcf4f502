// Images written by Pillow (tests/data/files), and variants edited by hand: pixels, and rejected files. Without a
// library, the error that says so.
#include <lockstep/data/image.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "data/readers.h"
#include "io/crc32.h"
#include "support/memory_source.h"
#include "support/peak_memory.h"
#include "support/repetitions.h"
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

// JPEG keeps this colour up to rounding.
TEST_F(ReadJpeg, GivesPixels) {
  for (const char* name : {"colour.jpg", "progressive.jpg", "grey.jpg"}) {
    const Tensor image = read_image(image_file(name));
    const std::int64_t channels = name[0] == 'g' ? 1 : 3;
    ASSERT_EQ(image.sizes(), (Shape{channels, 9, 17})) << name;
    for (std::int64_t c = 0; c < channels; ++c)
      for (const std::uint8_t value : image[c].to_vector<std::uint8_t>()) EXPECT_NEAR(value, 200 >> c, 3) << name;
  }
  EXPECT_NE(image_error([] { read_image(image_file("cmyk.jpg")); }).find("expected a JPEG, got a JPEG in CMYK"),
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

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += char(number >> shift);
  return bytes;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string both = type + data;
  return big_endian(std::uint32_t(data.size())) + both + big_endian(crc32_of(both.data(), both.size()));
}

// RGB.png with chunks inserted after its header.
std::string png_with(const std::string& chunks) {
  constexpr std::size_t kHeaderEnd = 8 + 12 + 13;
  return contents(image_file("RGB.png")).insert(kHeaderEnd, chunks);
}

Tensor image_of(const std::string& bytes) {
  testing::MemorySource source(bytes);
  return read_image(source, {});
}

// A disk that fails after the first bytes: the error must pass through the C library.
class FailingSource final : public testing::MemorySource {
 public:
  using MemorySource::MemorySource;
  void read(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (bytes > 8) throw IoError("read", "failing", EIO);
    MemorySource::read(offset, to, bytes);
  }
};

void expect_failure_of_the_disk(const std::string& name) {
  const std::string bytes = contents(image_file(name));
  FailingSource source(bytes);
  EXPECT_THROW(read_image(source, {}), IoError);
}

TEST_F(ReadPng, ThrowsTheErrorOfADisk) { expect_failure_of_the_disk("RGB.png"); }
TEST_F(ReadJpeg, ThrowsTheErrorOfADisk) { expect_failure_of_the_disk("grey.jpg"); }

TEST(WritePng, RefusesWhatIsNoImage) {
  const TemporaryFolder folder;
  const auto refusal = [&](const Tensor& image) { return image_error([&] { write_png(folder / "x.png", image); }); };
  EXPECT_EQ(refusal(zeros({3, 2, 2})),
            "[write_png] expected uint8, got float32: write (image * 255).round().to(kUInt8)");
  EXPECT_EQ(refusal(zeros({5, 2, 2}, {.dtype = kUInt8})),
            "[write_png] expected [channels, height, width] of 1 to 4 channels and at least one pixel, got [5, 2, 2]");
  EXPECT_EQ(refusal(zeros({2, 2}, {.dtype = kUInt8})).substr(0, 34), "[write_png] expected [channels, he");
  EXPECT_EQ(refusal(zeros({3, 0, 2}, {.dtype = kUInt8})).substr(0, 34), "[write_png] expected [channels, he");
  EXPECT_EQ(refusal(Tensor()), "[write_png] expected an image, got an undefined tensor");
  EXPECT_TRUE(folder.names().empty());
}

TEST_F(ReadPng, ReadsWhatWritePngWrote) {
  const TemporaryFolder folder;
  for (const char* name : {"L.png", "LA.png", "RGB.png", "RGBA.png"}) {
    const Tensor image = read_image(image_file(name));
    write_png(folder / "x.png", image);
    const Tensor again = read_image(folder / "x.png");
    EXPECT_EQ(again.sizes(), image.sizes());
    EXPECT_EQ(again.to_vector<std::uint8_t>(), image.to_vector<std::uint8_t>()) << name;
  }
}

// Transparency adds a channel, so a damaged tRNS chunk must not be ignored.
TEST_F(ReadPng, NoticesEachFlippedBit) {
  for (const std::string& bytes :
       {contents(image_file("palette.png")),
        png_with(chunk("tRNS", std::string("\0\0\0\7\0\16", 6)) + chunk("gAMA", big_endian(45455)))}) {
    const Tensor expected = image_of(bytes);
    EXPECT_EQ(expected.size(0), bytes.find("tRNS") == bytes.npos ? 3 : 4);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += testing::kStride) {
      std::string damaged = bytes;
      damaged[bit / 8] = char(damaged[bit / 8] ^ (1 << bit % 8));
      try {
        const Tensor got = image_of(damaged);
        EXPECT_EQ(got.sizes(), expected.sizes()) << "bit " << bit;
        EXPECT_EQ(got.to_vector<std::uint8_t>(), expected.to_vector<std::uint8_t>()) << "bit " << bit;
      } catch (const FormatError&) {
      }
    }
  }
}

// The letter a, repeated, in the shortest deflate blocks of the fixed code.
std::string deflated_letters(std::size_t copies) {
  std::string out = "\x78\x01";
  unsigned bits = 0, count = 0;
  const auto put = [&](unsigned code, unsigned length) {  // the first bit of a code comes first
    while (length-- > 0) {
      bits |= (code >> length & 1) << count;
      if (++count < 8) continue;
      out += char(bits);
      bits = count = 0;
    }
  };
  put(0b110, 3);  // the last block, with the fixed code
  put(0b00110000 + 'a', 8);
  for (std::size_t i = 0; i < copies; ++i) {
    put(0b11000101, 8);  // 258 bytes
    put(0, 5);           // from one byte before
  }
  put(0, 7 + 7);  // the end, and the rest of a byte
  const std::uint64_t n = 1 + 258 * copies;
  const auto adler = [](std::uint64_t sum) { return std::uint32_t(sum % 65521); };
  return out + big_endian(adler(n + 'a' * (n * (n + 1) / 2)) << 16 | adler(1 + 'a' * n));
}

// A text of 7 MB is compressed to 44 KB.
TEST_F(ReadPng, TakesNoMemoryForTexts) {
  const std::string text = chunk("zTXt", std::string("a\0\0", 3) + deflated_letters(27'000));
  std::string texts;
  for (int i = 0; i < 16; ++i) texts += text;
  const std::string bytes = png_with(texts);
  const testing::PeakMemory peak;
  EXPECT_EQ(image_of(bytes).sizes(), (Shape{3, 4, 3}));
  EXPECT_LT(peak.taken_bytes(), 32 << 20);
}

TEST_F(ReadPng, TakesNoMemoryForPixelsThatTheFileCannotHold) {
  std::string bytes = contents(image_file("RGB.png"));
  bytes.replace(8, 25, chunk("IHDR", big_endian(10'000) + big_endian(10'000) + std::string("\x8\2\0\0\0", 5)));
  EXPECT_NE(
      image_error([&] { image_of(bytes); }).find("expected at least 290697 bytes for 10000 by 10000 pixels, got "),
      std::string::npos);
}

void expect_no_memory_for_a_hole(const std::string& name) {
  const TemporaryFolder folder;
  testing::write_file(folder / "x", contents(image_file(name)).substr(0, 40));
  std::filesystem::resize_file(folder / "x", 64 << 20);
  const testing::PeakMemory peak;
  EXPECT_THROW(read_image(folder / "x"), FormatError);
  EXPECT_LT(peak.taken_bytes(), 16 << 20);
}

TEST_F(ReadPng, TakesNoMemoryForAHole) { expect_no_memory_for_a_hole("RGB.png"); }

// Grey, 64 by 64 pixels: the mean of each block, then scans that add nothing to any block.
std::string progressive_jpeg(int scans, std::uint16_t side = 64) {
  const auto segment = [](char marker, const std::string& data) {
    const std::string length = big_endian(std::uint32_t(data.size() + 2)).substr(2);
    return std::string("\xff") + marker + length + data;
  };
  const std::string size = big_endian(side).substr(2);
  const auto code_of = [](char table, char symbol) {  // a code with a single symbol takes one bit
    return std::string(1, table) + '\1' + std::string(15, '\0') + symbol;
  };
  std::string bytes = "\xff\xd8" + segment('\xdb', std::string(1, '\0') + std::string(64, '\1')) +
                      segment('\xc2', '\x8' + size + size + std::string("\1\1\x11\0", 4)) +
                      segment('\xc4', code_of('\0', '\0')) + segment('\xc4', code_of('\x10', '\x60')) +
                      segment('\xda', std::string("\1\1\0\0\0\0", 6)) + std::string(8, '\0');
  // 64 blocks: a bit for the symbol, six for the run length beyond 64, and one that fills the byte.
  for (int i = 0; i < scans; ++i) bytes += segment('\xda', std::string("\1\1\0\1\x3f\0", 6)) + '\1';
  return bytes + "\xff\xd9";
}

TEST_F(ReadJpeg, RefusesMoreScansThanAnEncoderWrites) {
  EXPECT_EQ(image_of(progressive_jpeg(99)).to_vector<std::uint8_t>(), Bytes(64 * 64, 128));
  EXPECT_NE(
      image_error([] { image_of(progressive_jpeg(100)); }).find("expected a JPEG, got an error: more than 100 scans"),
      std::string::npos);
}

TEST_F(ReadJpeg, TakesNoMemoryForPixelsThatTheFileCannotHold) {
  const std::string bytes = progressive_jpeg(1, 10'000);
  EXPECT_NE(
      image_error([&] { image_of(bytes); }).find("expected at least 195312 bytes for 10000 by 10000 pixels, got "),
      std::string::npos);
}

TEST_F(ReadJpeg, TakesNoMemoryForAHole) { expect_no_memory_for_a_hole("grey.jpg"); }

TEST_F(ReadPng, RefusesMorePixelsThanAllowed) {
  const std::string error = image_error([] { read_image(image_file("RGB.png"), {.max_pixels = 11}); });
  EXPECT_EQ(error.substr(0, error.find(" in ")), "[read_image] expected at most 11 pixels, got 3 by 4");
}

}  // namespace
}  // namespace lockstep::data
