// Written files have checksums; wrong ones are rejected; files of other programs have none and are read.
#include "io/checksum.h"

#include <gtest/gtest.h>

#include <lockstep/io/safetensors.h>
#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::contents;
using testing::file_of;
using testing::same;
using testing::TemporaryFolder;
using testing::thrown;
using testing::write_file;
using testing::written;

TEST(Checksum, IsThatOfTheSpecificationHoweverTheBytesCome) {
  EXPECT_EQ(checksum_digits(Checksum().value()), "2d06800538d394c2");  // XXH3 of no bytes
  EXPECT_EQ(checksum_digits(0x1f), "000000000000001f");
  const std::string bytes(100'000, 'x');
  Checksum whole, pieces;
  whole.add(bytes.data(), bytes.size());
  for (std::size_t at = 0, length = 1; at < bytes.size(); at += length, length = length * 3 % 1021)
    pieces.add(bytes.data() + at, std::min(length, bytes.size() - at));
  EXPECT_EQ(pieces.value(), whole.value());
}

StateDict some() {
  StateDict state;
  state.add("weight", tensor({{1., 2.}, {3., 4.}}));
  state.add("none", empty({0}));
  state.add("mask", tensor({true, false}));
  return state;
}

std::string error_of(const std::string& bytes) {
  return thrown<FormatError>([&] { testing::read(bytes); });
}

TEST(Checksums, NameTheTensorThatIsDamaged) {
  std::string bytes = written(some());
  bytes[bytes.size() - 3] ^= 1;  // in the numbers, which precede the mask
  EXPECT_NE(error_of(bytes).find("of tensor \"weight\", got"), std::string::npos) << error_of(bytes);
  EXPECT_NE(error_of(bytes).find("the file is damaged"), std::string::npos) << error_of(bytes);
}

TEST(Checksums, NoticeADifferentOrderOfLargeBlocks) {
  StateDict state;
  state.add("x", arange(200'000, {.dtype = kInt64}));  // several blocks of the reader
  const std::string bytes = written(state);
  EXPECT_TRUE(same(testing::read(bytes), state));
  std::string exchanged = bytes;
  const std::size_t block = 256 << 10, data = bytes.size() - 1'600'000;
  std::swap_ranges(exchanged.begin() + long(data), exchanged.begin() + long(data + block),
                   exchanged.begin() + long(data + block));
  EXPECT_NE(error_of(exchanged).find("checksum"), std::string::npos) << error_of(exchanged);
}

TEST(Checksums, AreLeftAsideWhereAskedTo) {
  const TemporaryFolder folder;
  save(some(), folder / "a", {{"name", "value"}});
  std::string bytes = contents(folder / "a");
  bytes[bytes.size() - 3] ^= 1;      // data
  bytes[bytes.find("value")] = 'V';  // header
  write_file(folder / "a", bytes);
  EXPECT_THROW(load(folder / "a"), FormatError);
  EXPECT_THROW(load_metadata(folder / "a"), FormatError);
  EXPECT_EQ(load(folder / "a", {.verify = false}).size(), 3u);
  EXPECT_EQ(load_metadata(folder / "a", {.verify = false}), (FileMetadata{{"name", "Value"}}));
}

TEST(Checksums, OfHalfAFileAreNotTakenForNone) {
  const std::string tensor = R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const auto with = [&](const std::string& metadata) {
    return error_of(file_of(R"({"__metadata__":{)" + metadata + "}," + tensor, "1"));
  };
  const std::string of_tensors = R"("lockstep.checksum.tensors":"0123456789abcdef")";
  const std::string expected = "expected checksums of the header and of 1 tensors, got others";
  EXPECT_NE(with(of_tensors).find(expected), std::string::npos);
  EXPECT_NE(with(of_tensors + R"(,"lockstep.checksum.header":"xxh3:0123456789abcdef")").find(expected),
            std::string::npos);
  EXPECT_NE(with(R"("lockstep.checksum.other":"")").find(expected), std::string::npos);
  EXPECT_EQ(with(R"("lockstep.sum":"")"), "nothing was thrown");
}

TEST(Checksums, HaveNamesThatNoOtherTextMayHave) {
  EXPECT_EQ(thrown<InvalidArgument>([] {
              written({}, {{"lockstep.checksum.x", ""}});
            }),
            "[save] expected a metadata name that is not reserved for checksums, got \"lockstep.checksum.x\"");
}

}  // namespace
}  // namespace lockstep
