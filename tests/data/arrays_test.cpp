// Arrays written by NumPy 2.4 (tests/data/files), and arrays written for NumPy.
#include <lockstep/data/arrays.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "data/readers.h"
#include "support/memory_source.h"
#include "support/peak_memory.h"
#include "support/raw_bytes.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"

namespace lockstep::data {
namespace {

using Floats = std::vector<float>;
using testing::contents;
using testing::TemporaryFolder;
using testing::write_file;

std::string array_file(const std::string& name) { return LOCKSTEP_DATA_FILES_FOLDER "/" + name; }

// Returns the error message without the folder.
template <class Body>
std::string array_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    std::string what = error.what();
    const std::size_t end = what.find(']'), slash = what.rfind('/', end);
    return slash < end ? '[' + what.substr(slash + 1) : what;
  }
  return "";
}

TEST(ReadNpy, GivesEveryDType) {
  for (const auto& [name, dtype] : {std::pair("u1", kUInt8), std::pair("i4", kInt32), std::pair("i8", kInt64),
                                    std::pair("f2", kFloat16), std::pair("f4", kFloat32), std::pair("f8", kFloat64)}) {
    const Tensor array = read_npy(array_file(name + std::string(".npy")));
    EXPECT_EQ(array.dtype(), dtype);
    EXPECT_EQ(array.sizes(), (Shape{2, 3}));
    EXPECT_EQ(array.to(kFloat32).to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5})) << name;
  }
  const Tensor bools = read_npy(array_file("b1.npy"));
  EXPECT_EQ(bools.dtype(), kBool);
  EXPECT_EQ(bools.to(kFloat32).to_vector<float>(), (Floats{0, 1, 0, 1, 0, 1}));
}

TEST(ReadNpy, GivesFortransOrderScalarsAndNothing) {
  const Tensor fortran = read_npy(array_file("fortran.npy"));
  EXPECT_EQ(fortran.sizes(), (Shape{2, 3, 4}));
  EXPECT_EQ(fortran[1][2][3].item<float>(), 23);
  EXPECT_EQ(fortran[1][0][1].item<float>(), 13);
  EXPECT_EQ(read_npy(array_file("scalar.npy")).item<double>(), 2.5);
  EXPECT_EQ(read_npy(array_file("scalar.npy")).dim(), 0);
  EXPECT_EQ(read_npy(array_file("empty.npy")).sizes(), (Shape{2, 0}));
}

TEST(WriteNpy, WritesWhatNumpyWrites) {
  const TemporaryFolder folder;
  const TestDevices devices(1);
  const Tensor numbers = tensor({{0, 1, 2}, {3, 4, 5}});
  for (const auto& [name, dtype] : {std::pair("u1", kUInt8), std::pair("i4", kInt32), std::pair("i8", kInt64),
                                    std::pair("f2", kFloat16), std::pair("f4", kFloat32), std::pair("f8", kFloat64)}) {
    write_npy(folder / "a.npy", numbers.to(Device::cuda(0), dtype));
    EXPECT_EQ(contents(folder / "a.npy"), contents(array_file(name + std::string(".npy")))) << name;
  }
  write_npy(folder / "a.npy", numbers.t());
  EXPECT_EQ(read_npy(folder / "a.npy").to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 3, 1, 4, 2, 5}));
  write_npy(folder / "a.npy", tensor(2.5));
  EXPECT_EQ(read_npy(folder / "a.npy").item<float>(), 2.5);
  EXPECT_EQ(array_error([&] { write_npy(folder / "a.npy", zeros({1}, {.dtype = kBFloat16})); }),
            "[write_npy] expected a dtype that NumPy has, got bfloat16");
}

TEST(ReadNpz, GivesTheArraysByName) {
  const StateDict arrays = read_npz(array_file("stored.npz"));
  EXPECT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays.at("weights").to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(arrays.at("labels").to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(ReadNpz, RefusesCompressedArraysByName) {
  const std::string error = array_error([] { read_npz(array_file("compressed.npz")); });
  EXPECT_NE(error.find("expected entries that are stored uncompressed, got \"weights.npy\" with deflate"), error.npos)
      << error;
}

TEST(ReadNpy, RefusesWhatItCannotHold) {
  EXPECT_EQ(array_error([] { read_npy(array_file("big_endian.npy")); }),
            "[big_endian.npy] at byte 10: expected one of |b1 |u1 <i4 <i8 <f2 <f4 <f8, got \">f4\"");
  EXPECT_EQ(array_error([] { read_npy(array_file("int16.npy")); }),
            "[int16.npy] at byte 10: expected one of |b1 |u1 <i4 <i8 <f2 <f4 <f8, got \"<i2\"");
}

TEST(WriteNpz, IsReadAgain) {
  const TemporaryFolder folder;
  const TestDevices devices(1);
  StateDict arrays;
  arrays.add("weights", tensor({{0, 1, 2}, {3, 4, 5}}).to(Device::cuda(0), kFloat32));
  arrays.add("transposed", tensor({{1, 2}, {3, 4}}).t());
  arrays.add("größe.npy", tensor(2.5));
  arrays.add("nothing", zeros({0, 3}));
  write_npz(folder / "a.npz", arrays);
  EXPECT_TRUE(testing::same(read_npz(folder / "a.npz"), arrays));
  write_npz(folder / "a.npz", StateDict());
  EXPECT_EQ(read_npz(folder / "a.npz").size(), 0u);
}

// More entries than the directory can count without zip64.
TEST(WriteNpz, WritesManyArrays) {
  const TemporaryFolder folder;
  StateDict arrays;
  for (int i = 0; i < 66'000; ++i) arrays.add(std::to_string(i), zeros({0}));
  write_npz(folder / "a.npz", arrays);
  EXPECT_EQ(read_npz(folder / "a.npz").size(), 66'000u);
}

TEST(WriteNpz, RefusesWhatNumpyDoesNotHaveBeforeItWrites) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& name, const Tensor& value) {
    StateDict arrays;
    arrays.add("good", zeros({1}));
    arrays.add(name, value);
    return array_error([&] { write_npz(folder / "a.npz", arrays); });
  };
  EXPECT_EQ(refusal("x", zeros({1}, {.dtype = kBFloat16})),
            "[write_npz] expected a dtype that NumPy has, got bfloat16");
  EXPECT_EQ(refusal("x", Tensor()), "[write_npz] expected a tensor, got an undefined one");
  EXPECT_EQ(refusal("\xff", zeros({1})).substr(0, 62),
            "[write_npz] expected names in UTF-8 of at most 60000 bytes, go");
  EXPECT_TRUE(folder.names().empty());
}

// A flipped bit either changes nothing that is read, or makes the reader throw.
TEST(ReadNpz, NoticesEachFlippedBit) {
  for (const char* name : {"stored.npz", "mixed.npz"}) {
    const std::string bytes = contents(array_file(name));
    const auto noted = [](std::string* to) {
      return ReadOptions{.on_skipped = [to](const std::string& left, const std::string& what) { *to += left + what; }};
    };
    std::string expected_skipped;
    const StateDict expected = read_npz(array_file(name), noted(&expected_skipped));
    int refused = 0;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += testing::kStride) {
      std::string damaged = bytes;
      damaged[bit / 8] = char(damaged[bit / 8] ^ (1 << bit % 8));
      testing::MemorySource source(damaged);
      try {
        std::string skipped;
        const StateDict got = read_npz(source, noted(&skipped));
        EXPECT_TRUE(testing::same(got, expected)) << name << ", bit " << bit;
        EXPECT_EQ(skipped, expected_skipped) << name << ", bit " << bit;
      } catch (const FormatError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, int(bytes.size()));
  }
}

TEST(ReadNpz, LeavesOutWhatIsNoTensorAndNamesIt) {
  std::vector<std::string> skipped;
  const auto note = [&](const std::string& name, const std::string& what) { skipped.push_back(name + ": " + what); };
  const StateDict arrays = read_npz(array_file("mixed.npz"), {.on_skipped = note});
  EXPECT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays.at("weights").to_vector<float>(), (Floats{1.5}));
  EXPECT_EQ(skipped, (std::vector<std::string>{"names: an array of \"<U3\"",
                                               "records: an array of \"[('a', '<f4'), ('b]', '<i4')]\"",
                                               "objects: an array of \"|O\"", "README.txt: no array"}));
  ::testing::internal::CaptureStderr();
  read_npz(array_file("mixed.npz"));
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("mixed.npz: skipped, since no tensor can hold them: \"names\" (an array of \"<U3\"), "),
            line.npos)
      << line;
  ::testing::internal::CaptureStderr();
  read_npz(array_file("stored.npz"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// Skipping them would lose numbers silently.
TEST(ReadNpz, RefusesNumbersThatLockstepDoesNotHold) {
  EXPECT_NE(array_error([] {
              read_npz(array_file("int16.npz"));
            }).find("expected one of |b1 |u1 <i4 <i8 <f2 <f4 <f8, got \"<i2\""),
            std::string::npos);
}

TEST(ReadNpz, IsReadOntoADevice) {
  const TestDevices devices(1);
  EXPECT_EQ(read_npz(array_file("stored.npz"), {.device = Device::cuda(0)}).at("weights").device(), Device::cuda(0));
}

// The member is as large as the file, but only its header may be read.
TEST(ReadNpz, TakesNoMemoryForAMemberThatIsNoArray) {
  const TemporaryFolder folder;
  constexpr std::uint32_t kHole = 512 << 20;
  const std::string name = "hole";
  const auto entry = [&](std::uint32_t method) {
    return testing::raw(std::uint16_t(0)) + testing::raw(std::uint16_t(method)) + std::string(4, '\0') +
           testing::raw(std::uint32_t(0)) + testing::raw(kHole) + testing::raw(kHole) +
           testing::raw(std::uint16_t(name.size()));
  };
  const std::string local = "PK\3\4" + std::string(2, '\0') + entry(0) + std::string(2, '\0') + name;
  const std::string central = "PK\1\2" + std::string(4, '\0') + entry(0) + std::string(16, '\0') + name;
  const std::string one = testing::raw(std::uint16_t(1));
  write_file(folder / "x.npz", local);
  std::filesystem::resize_file(folder / "x.npz", local.size() + kHole);
  std::ofstream(folder / "x.npz", std::ios::binary | std::ios::app)
      << central << "PK\5\6" << std::string(4, '\0') << one << one << testing::raw(std::uint32_t(central.size()))
      << testing::raw(std::uint32_t(local.size() + kHole)) << std::string(2, '\0');
  const testing::PeakMemory peak;
  int skipped = 0;
  const auto note = [&](const std::string&, const std::string&) { ++skipped; };
  try {
    read_npz(folder / "x.npz", {.verify = false, .on_skipped = note});
  } catch (const FormatError&) {
  }
  EXPECT_EQ(skipped, 1);
  EXPECT_LT(peak.taken_bytes(), 64 << 20);
}

std::string npy(const std::string& header, const std::string& data) {
  return "\x93NUMPY" + std::string("\1\0", 2) + char(header.size()) + '\0' + header + data;
}

TEST(ReadNpy, RefusesHostileFiles) {
  const TemporaryFolder folder;
  const struct {
    std::string bytes, expected;
  } cases[] = {
      {"", "[x.npy] at byte 0: expected an array of NumPy, got 0 bytes"},
      {"PK and more text", "[x.npy] at byte 0: expected an array of NumPy, got another file"},
      {"\x93NUMPY\4 and more", "[x.npy] at byte 6: expected version 1 to 3 of the format, got 4"},
      {"\x93NUMPY" + std::string("\1\0\xff\xff", 4) + "{}",
       "[x.npy] at byte 8: expected a header of at most 2 bytes, got 65535"},
      {npy("{'descr': '<f4'}  ", ""),
       "[x.npy] at byte 26: expected the header of an array with descr, fortran_order and shape, got fewer"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "abc"),
       "[x.npy] at byte 10: expected sizes that fit the 3 bytes of data, got [2]"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", ""),
       "[x.npy] at byte 10: expected sizes that fit the 0 bytes of data, got [4294967296, 4294967296]"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "abcd"),
       "[x.npy] at byte 61: expected the header of an array with sizes, got \"-1,)}\""},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "abcd"),
       "[x.npy] at byte 77: expected the header of an array with at most 8 dimensions, got more"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd"),
       "[x.npy] at byte 10: expected one of |b1 |u1 <i4 <i8 <f2 <f4 <f8, got \"[('a', '<f4')]\""},
      {npy("{'descr': [('a', 'fortran_order': False}", ""),
       "[x.npy] at byte 50: expected the header of an array with a text or a list, got the end of the header in it"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4611686018427387904)}", ""),
       "[x.npy] at byte 10: expected sizes that fit the 0 bytes of data, got [0, 4611686018427387904, "
       "4611686018427387904]"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (4611686018427387904, 0)}", ""),
       "[x.npy] at byte 10: expected sizes that fit the 0 bytes of data, got [4611686018427387904, 0]"},
      {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\2"),
       "[x.npy] at byte 65: expected 0 or 1 for a bool, got 2"},
  };
  for (const auto& hostile : cases) {
    write_file(folder / "x.npy", hostile.bytes);
    EXPECT_EQ(array_error([&] { read_npy(folder / "x.npy"); }), hostile.expected);
  }
}

}  // namespace
}  // namespace lockstep::data
