// Malformed files of torch.save, made here opcode by opcode, and rejected with typed errors.
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "io/crc32.h"
#include "io/memory_source.h"
#include "io/torch_file.h"
#include "io/zip_archive.h"
#include "support/peak_memory.h"
#include "support/raw_bytes.h"

namespace lockstep {
namespace {

using testing::MemorySource;
using testing::raw;

using ZipEntries = std::vector<std::pair<std::string, std::string>>;

struct ZipFields {  // written to each entry of the directory
  std::uint16_t flags = 0, method = 0;
  std::uint32_t more_bytes = 0;
  bool all_at_first = false;
};

std::string zip_of(const ZipEntries& entries, const ZipFields& fields = {}) {
  std::string file, directory;
  for (const auto& [name, data] : entries) {
    const auto offset = std::uint32_t(fields.all_at_first ? 0 : file.size());
    const std::string sizes = raw(crc32_of(data.data(), data.size())) + raw(std::uint32_t(data.size())) +
                              raw(std::uint32_t(data.size())) + raw(std::uint16_t(name.size())) + raw(std::uint16_t(0));
    file += "PK\3\4" + std::string(2, '\0') + raw(fields.flags) + raw(fields.method) + std::string(4, '\0') + sizes +
            name + data;
    const auto bytes = std::uint32_t(data.size()) + fields.more_bytes;
    directory += "PK\1\2" + std::string(4, '\0') + raw(fields.flags) + raw(fields.method) + std::string(4, '\0') +
                 sizes.substr(0, 4) + raw(bytes) + raw(bytes) + raw(std::uint16_t(name.size())) +
                 std::string(12, '\0') + raw(offset) + name;
  }
  const auto count = std::uint16_t(entries.size());
  return file + directory + "PK\5\6" + std::string(4, '\0') + raw(count) + raw(count) +
         raw(std::uint32_t(directory.size())) + raw(std::uint32_t(file.size())) + std::string(2, '\0');
}

std::string zip_error(const std::string& bytes) {
  MemorySource source(bytes);
  try {
    torch_file::read(source, {});
  } catch (const FormatError& error) {
    EXPECT_LE(error.offset, bytes.size());
    const std::string what = error.what();
    return what.substr(what.find(": ") + 2);
  }
  return "nothing";
}

// Names for a pickle's opcodes.
std::string unicode(const std::string& value) { return 'X' + raw(std::uint32_t(value.size())) + value; }
std::string named(const std::string& module, const std::string& name) { return 'c' + module + '\n' + name + '\n'; }
std::string integer(std::int32_t value) { return 'J' + raw(value); }
std::string tuple_of(const std::string& items) { return '(' + items + 't'; }
std::string storage_of(std::int32_t elements, const std::string& key = "0", const std::string& type = "FloatStorage") {
  return '(' + unicode("storage") + named("torch", type) + unicode(key) + unicode("cpu") + integer(elements) + "tQ";
}
std::string tensor_of(const std::string& storage, std::int32_t offset, const std::string& sizes,
                      const std::string& strides) {
  return named("torch._utils", "_rebuild_tensor_v2") + '(' + storage + integer(offset) + tuple_of(sizes) +
         tuple_of(strides) + "\x89" + named("collections", "OrderedDict") + ")RtR";
}
std::string dict_of(const std::string& value) { return "\x80\2}" + unicode("x") + value + "s."; }

std::string torch_zip(const std::string& pickle, const std::string& data = "abcdefgh") {
  return zip_of({{"m/data.pkl", pickle}, {"m/data/0", data}});
}

TEST(HostileTorchFile, IsWellFormedWithoutALie) {
  const std::string good =
      torch_zip(dict_of(tensor_of(storage_of(2), 0, integer(2), integer(1))), std::string("\0\0\x80?\0\0\0@", 8));
  MemorySource source(good);
  EXPECT_EQ(torch_file::read(source, {}).tensors.at("x").to_vector<float>(), (std::vector<float>{1, 2}));
}

// Larger than one block of the reader.
TEST(HostileTorchFile, IsReadWholeWithItsChecksum) {
  constexpr std::int32_t kElements = 100'000;
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  std::string data(values.size() * sizeof(float), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  const std::string file =
      torch_zip(dict_of(tensor_of(storage_of(kElements), 0, integer(kElements), integer(1))), data);
  MemorySource source(file);
  EXPECT_EQ(torch_file::read(source, {}).tensors.at("x").to_vector<float>(), values);
}

// The values that Python's pickle.loads reads.
TEST(HostileTorchFile, MayHaveLongIntegersOfAnySign) {
  const std::pair<std::string, std::int64_t> numbers[] = {
      {std::string("\x8a\0", 2), 0},
      {std::string("\x8a\1\xff", 3), -1},
      {std::string("\x8a\2\xff\0", 4), 255},
      {std::string("\x8a\6\0\0\0\0\0\1", 8), std::int64_t(1) << 40},
      {std::string("\x8a\6\0\0\0\0\0\xff", 8), -(std::int64_t(1) << 40)},
      {std::string("\x8a\10\0\0\0\0\0\0\0\x80", 10), std::numeric_limits<std::int64_t>::min()},
  };
  for (const auto& [number, expected] : numbers) {
    const std::string file = torch_zip(dict_of(number));
    MemorySource source(file);
    EXPECT_EQ(torch_file::read(source, {}).tensors.at("x").item<std::int64_t>(), expected);
  }
}

TEST(HostileTorchFile, OfOtherOpcodesIsRefusedByName) {
  const std::pair<std::string, std::string> pickles[] = {
      {"\x80\2" + named("os", "system") + unicode("true") + "\x85R.",
       "expected a state dict, got \"os.system\": save a dict of tensors, as state_dict() gives one"},
      {"\x80\4" + unicode("builtins") + unicode("eval") + "\x93.",
       "expected a state dict, got \"builtins.eval\": save a dict of tensors, as state_dict() gives one"},
      {std::string("(ios\nsystem\n."), "expected opcodes of pickle protocol 2 to 5, got INST (105)"},
      {std::string("\x80\2\x82\1."), "expected opcodes of pickle protocol 2 to 5, got EXT1 (130)"},
      {std::string("\x80\2\xff."), "expected opcodes of pickle protocol 2 to 5, got no opcode (255)"},
      {std::string("\x80\1}."), "expected pickle protocol 2 to 5, got 1"},
  };
  for (const auto& [pickle, expected] : pickles) EXPECT_EQ(zip_error(torch_zip(pickle)), expected);
}

// Objects as Python's pickle makes them: by calls, with keyword arguments, with attributes, by calls of results.
TEST(HostileTorchFile, MayHaveObjectsThatAreLeftOut) {
  const std::string name = named("a", "B");
  const std::pair<std::string, std::string> values[] = {
      {named("os", "system") + unicode("true") + "\x85R", "os.system"},
      {name + ")\x81", "a.B"},
      {name + ")}\x92", "a.B"},
      {name + ")\x81}" + unicode("x") + "K\1sb", "a.B"},
      {name + ")R(K\1K\2e", "a.B"},
      {name + ")R" + unicode("x") + "K\1s", "a.B"},
      {name + ")R)R", "a.B"},
      {"\x8f(K\1K\2\x90", "set"},
      {"(K\1K\2\x91", "frozenset"},
      {std::string("C\3abc"), "bytes"},
      {'B' + raw(std::uint32_t(3)) + "abc", "bytes"},
      {'\x8e' + raw(std::uint64_t(3)) + "abc", "bytes"},
      {'\x96' + raw(std::uint64_t(3)) + "abc", "bytearray"},
      {"\x8a\x09" + std::string(9, '\1'), "int"},
      {'\x8b' + raw(std::uint32_t(300)) + std::string(300, '\1'), "int"},
      {name + "0(K\1" + "1K\1", ""},  // dropped again
  };
  for (const auto& [value, expected] : values) {
    std::string skipped;
    const std::string file = torch_zip(dict_of(value));
    MemorySource source(file);
    torch_file::read(source, {.on_skipped = [&](const std::string&, const std::string& what) { skipped = what; }});
    EXPECT_EQ(skipped, expected);
  }
}

TEST(HostileTorchFile, OfAPickleThatDoesNotHangTogetherIsRefused) {
  const std::pair<std::string, std::string> pickles[] = {
      {"", "expected 1 bytes more of a pickle, got 0"},
      {"}", "expected 1 bytes more of a pickle, got 0"},
      {"X\xff\xff\xff\x7f.", "expected 2147483647 bytes more of a pickle, got 1"},
      {"X" + raw(std::uint32_t(1)) + "\xff.", "expected UTF-8 in a text, got \"\\ufffd\""},
      {"}}.", "expected one value at the end, got more"},
      {"(.", "expected one value at the end, got none"},
      {"t.", "expected a mark on the stack, got none"},
      {"\x85.", "expected 1 values on the stack, got 0"},
      {"}(s.", "expected 2 values on the stack, got 0"},
      {"]K\1K\2s.", "expected a dict on the stack, got something else"},
      {"}(K\1u.", "expected a value for each key, got one key more"},
      {"h\1.", "expected a value in the memo, got none at 1"},
      {"}r\xff\xff\xff\xff.", "expected a position in the memo below 4194304, got 4294967295"},
      {"}}R.", "expected a function's name and a tuple of its arguments, got something else"},
      {"]}b.", "expected BUILD on an object or a dict, got BUILD on something else"},
      {"]K\1\x90.", "expected a mark on the stack, got none"},
      {"](K\1\x90.", "expected a set on the stack, got something else"},
      {"(0.", "expected one value at the end, got none"},
      {"0.", "expected 1 values on the stack, got 0"},
      {"2.", "expected a value on the stack, got none"},
      {std::string("C\x09") + "a.", "expected 9 bytes more of a pickle, got 2"},
      {named("torch", "Size"), "expected 1 bytes more of a pickle, got 0"},
  };
  for (const auto& [pickle, expected] : pickles) EXPECT_EQ(zip_error(torch_zip(pickle)), expected);
}

TEST(HostileTorchFile, OfATensorThatLiesIsRefused) {
  const std::string one = integer(1), billion = integer(1'000'000'000);
  const std::pair<std::string, std::string> values[] = {
      {tensor_of(storage_of(2), 1, integer(2), one),
       "expected a tensor within the 2 elements of its storage, got sizes [2], strides [1] and offset 1"},
      {tensor_of(storage_of(2), 0, integer(2), integer(2)),
       "expected a tensor within the 2 elements of its storage, got sizes [2], strides [2] and offset 0"},
      {tensor_of(storage_of(2), 0, billion + billion + billion, integer(0) + integer(0) + integer(0)),
       "expected a tensor within the 2 elements of its storage, got sizes [1000000000, 1000000000, 1000000000], "
       "strides "
       "[0, 0, 0] and offset 0"},
      {tensor_of(storage_of(2), 0, integer(-1), one), "expected sizes >= 0, got -1"},
      {tensor_of(storage_of(2), 0, one, integer(-1)), "expected strides >= 0, got -1"},
      {tensor_of(storage_of(2), -1, one, one), "expected an offset >= 0, got -1"},
      {tensor_of(storage_of(2), 0, one, ""), "expected a stride for each size, got [] for [1]"},
      {tensor_of(storage_of(2), 0, one + one + one + one + one + one + one + one + one, one),
       "expected at most 8 dimensions, got 9"},
      {tensor_of(storage_of(1'000'000'000), 0, one, one),
       "expected 1000000000 elements of float32 in storage \"0\", got 8 bytes"},
      {tensor_of(storage_of(2, "7"), 0, one, one), "expected data of storage \"7\", got none"},
      {tensor_of("}", 0, one, one), "expected a storage, got a dict"},
      {tensor_of(storage_of(2), 0, one, one) + 's' + unicode("y") + tensor_of(storage_of(1), 0, one, one),
       "expected 2 elements of float32 in storage \"0\" as before, got 1 of float32"},
      {storage_of(2), "expected a value for \"x\", got a storage"},
      {tensor_of(storage_of(8, "0", "BoolStorage"), 0, one, one), "expected 0 or 1 for a bool, got 97"},
  };
  for (const auto& [value, expected] : values) EXPECT_EQ(zip_error(torch_zip(dict_of(value))), expected);
  EXPECT_EQ(zip_error(torch_zip(dict_of(tensor_of(storage_of(2, "0", "BoolStorage"), 0, one, one)), "\1\2")),
            "expected 0 or 1 for a bool, got 2");
}

TEST(HostileTorchFile, OfCirclesAndBombsIsRefused) {
  EXPECT_EQ(zip_error(torch_zip("}q\1" + unicode("x") + "h\1s.")),
            "expected at most 64 dicts and lists in each other, got more");
  EXPECT_EQ(zip_error(torch_zip("]q\1h\1a.")), "expected at most 64 dicts and lists in each other, got more");
  // Nested lists, each with ten times the previous one: up to 10^12 numbers.
  std::string lists = "]q\1(K\1K\1K\1K\1K\1K\1K\1K\1K\1K\1e";
  for (char depth = 1; depth < 12; ++depth) {
    lists += std::string("]q") + char(depth + 1) + '(';
    for (int i = 0; i < 10; ++i) lists += std::string("h") + depth;
    lists += 'e';
  }
  const std::string pickle = '}' + unicode("x") + '(' + lists + "ts.";
  EXPECT_EQ(zip_error(torch_zip(pickle)),
            "expected names of at most " + std::to_string((1 << 20) + 16 * pickle.size()) + " bytes, got more");
}

std::string many(const std::string& what, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += what;
  return all;
}

TEST(HostileTorchFile, OfOneTupleInManySizesTakesNoMemory) {
  const std::string first = named("torch", "Size") + "q\2(" + many("N", 5000) + "tq\1R";
  const std::string file = torch_zip('}' + unicode("x") + '(' + first + many("h\2h\1R", 10'000) + "ts.");
  const testing::PeakMemory peak;
  EXPECT_EQ(zip_error(file), "expected a tuple, got \"torch.Size\"");
  EXPECT_LT(peak.taken_bytes(), 32 << 20);
}

// Names of skipped values are not built.
TEST(HostileTorchFile, OfALongKeyOverManyValuesTakesNoTime) {
  const std::string lists =
      torch_zip('}' + unicode(std::string(500'000, 'k')) + "](Nq\1" + many("h\1", 250'000) + "es.");
  const std::clock_t begin = std::clock();
  EXPECT_EQ(zip_error(lists), "nothing");
  EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 1);
}

// Each of these values needs a name of 500 KB.
TEST(HostileTorchFile, OfALongKeyOverManyNumbersTakesNoMemory) {
  const std::string pickle = '}' + unicode(std::string(500'000, 'k')) + "](K\1q\1" + many("h\1", 100) + "es.";
  const std::string file = torch_zip(pickle);
  const testing::PeakMemory peak;
  EXPECT_EQ(zip_error(file),
            "expected names of at most " + std::to_string((1 << 20) + 16 * pickle.size()) + " bytes, got more");
  EXPECT_LT(peak.taken_bytes(), 32 << 20);
}

TEST(HostileTorchFile, OfOneLongTextInManyNamesTakesNoTime) {
  const std::string file = torch_zip(unicode(std::string(1'000'000, 'n')) + "q\1" + many("h\1h\1\x93", 50'000) + ".");
  const std::clock_t begin = std::clock();
  EXPECT_EQ(zip_error(file), "expected names of at most 1024 bytes, got one of 2000001");
  EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 2);
  std::string names;
  for (int i = 0; i < 1100; ++i) names += named(std::string(1000, 'n'), std::to_string(i)) + '0';
  EXPECT_EQ(zip_error(torch_zip(names + ".")), "expected names of at most 1048576 bytes in all, got more");
}

TEST(HostileTorchFile, OfADirectoryThatLiesIsRefused) {
  const ZipEntries entries = {{"m/data.pkl", "}."}, {"m/data/0", "abcd"}};
  EXPECT_EQ(zip_error(zip_of(entries)), "nothing");
  EXPECT_EQ(zip_error(zip_of(entries, {.flags = 1})), "expected entries that are not encrypted, got \"m/data.pkl\"");
  EXPECT_EQ(zip_error(zip_of(entries, {.method = 8})),
            "expected entries that are stored uncompressed, got \"m/data.pkl\" with deflate");
  EXPECT_EQ(zip_error(zip_of(entries, {.more_bytes = 1'000'000'000})).substr(0, 43),
            "expected \"m/data.pkl\" before the directory,");
  EXPECT_EQ(zip_error(zip_of(entries, {.more_bytes = 1})).substr(0, 41), "expected \"m/data/0\" before the directory,");
  EXPECT_EQ(zip_error(zip_of(entries, {.all_at_first = true})).substr(0, 62),
            "expected \"m/data/0\" with no compression, as the directory says");
  std::string reaching = zip_of(entries);
  for (const std::size_t size : {20, 24}) reaching[reaching.find("PK\1\2") + size] += 1;  // extends into the next entry
  EXPECT_EQ(zip_error(reaching), "expected entries without overlap, got \"m/data/0\" in \"m/data.pkl\"");
  EXPECT_EQ(zip_error(zip_of({{"m/data.pkl", "}."}, {"m/data.pkl", "}."}})),
            "expected each entry once, got \"m/data.pkl\" again");
  EXPECT_EQ(zip_error(zip_of({{"m/n/data.pkl", "}."}})),
            "expected a file of torch.save, got a zip file without data.pkl");
  EXPECT_EQ(zip_error(zip_of({{"m/data.pkl", "}."}, {"m/byteorder", "big"}})),
            "expected the byte order little, got \"big\"");
  std::string comment = zip_of(entries);
  comment.back() = 1;
  EXPECT_EQ(zip_error(comment), "expected a zip file with a directory at its end, got none: the file is cut off");
}

TEST(Crc32, IsThatOfZip) {
  EXPECT_EQ(crc32_of("123456789", 9), 0xcbf43926u);  // the check value of CRC-32/ISO-HDLC
  EXPECT_EQ(crc32_of("56789", 5, crc32_of("1234", 4)), 0xcbf43926u);
}

}  // namespace
}  // namespace lockstep
