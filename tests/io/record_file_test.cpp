// Records in TensorFlow's framing, read back by an independent reader.
#include "io/record_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include <lockstep/core/error.h>

#include "io/crc32.h"
#include "support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::contents;
using testing::TemporaryFolder;

// RFC 3720, section B.4.
TEST(Crc32c, HasTheValuesOfItsStandard) {
  std::array<unsigned char, 32> bytes = {};
  EXPECT_EQ(crc32c_of(bytes.data(), bytes.size()), 0x8a9136aau);
  bytes.fill(0xff);
  EXPECT_EQ(crc32c_of(bytes.data(), bytes.size()), 0x62a8ab43u);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(crc32c_of(bytes.data(), bytes.size()), 0x46dd794eu);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(31 - i);
  EXPECT_EQ(crc32c_of(bytes.data(), bytes.size()), 0x113fdb5cu);
  EXPECT_EQ(crc32c_of("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c_of("", 0), 0u);
}

// Computes bit by bit, and undoes the mask; shares no code with the writer.
std::uint32_t slow_crc32c(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = ((crc ^ (static_cast<unsigned char>(c) >> bit)) & 1) != 0;
      crc = (crc >> 1) ^ (odd ? 0x82f63b78u : 0);
    }
  return ~crc;
}
std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t turned = masked - 0xa282ead8u;
  return turned >> 17 | turned << 15;
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  const auto number = [&](std::size_t at, auto value) {
    EXPECT_LE(at + sizeof value, file.size());
    std::memcpy(&value, file.data() + at, sizeof value);
    return value;
  };
  for (std::size_t at = 0; at < file.size();) {
    const auto length = std::size_t(number(at, std::uint64_t()));
    EXPECT_EQ(unmasked(number(at + 8, std::uint32_t())), slow_crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    EXPECT_EQ(unmasked(number(at + 12 + length, std::uint32_t())), slow_crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

TEST(RecordFile, FramesRecordsSoThatTheyReadBack) {
  const TemporaryFolder folder;
  const std::vector<std::string> records = {"", "a", std::string("\0\xff\n", 3), std::string(70'000, 'x')};
  {
    RecordFile file(folder / "records");
    for (const std::string& record : records) file.add(record);
    EXPECT_EQ(contents(folder / "records"), "");  // buffered so far
    file.flush();
    EXPECT_EQ(records_of(contents(folder / "records")), records);
    file.add("last");
  }
  EXPECT_EQ(records_of(contents(folder / "records")).back(), "last");
}

TEST(RecordFile, WritesWholeRecordsWhenMuchIsKept) {
  const TemporaryFolder folder;
  RecordFile file(folder / "records");
  file.add(std::string(RecordFile::kMaxBuffered, 'x'));
  file.add("kept");
  EXPECT_EQ(records_of(contents(folder / "records")).size(), 1u);
}

TEST(RecordFile, RefusesAFileThatIsThere) {
  const TemporaryFolder folder;
  testing::write_file(folder / "records", "mine");
  EXPECT_THROW(RecordFile(folder / "records"), IoError);
  EXPECT_THROW(RecordFile(folder / "no folder" / "records"), IoError);
  EXPECT_EQ(contents(folder / "records"), "mine");
}

}  // namespace
}  // namespace lockstep
