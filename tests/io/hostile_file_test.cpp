// Malformed files: each is rejected by a FormatError that says where and why, and no size in a file is trusted for a
// read or an allocation.
#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/io/safetensors.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "support/temporary_folder.h"

namespace lockstep::hostile_file {
namespace {

using testing::file_of;
using testing::MemorySource;

std::string error_of(std::string_view bytes) {
  try {
    testing::read(bytes);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

struct Case {
  std::string bytes;
  std::string message;
};

// A file with one tensor "x" with these fields and `data` bytes.
std::string tensor_file(const std::string& fields, std::size_t data = 4) {
  return file_of(R"({"x":{)" + fields + "}}", std::string(data, '\0'));
}
std::string entry(const std::string& key, int begin, int end) {
  return '"' + key + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) + R"(],"data_offsets":[)" +
         std::to_string(begin) + ',' + std::to_string(end) + "]}";
}
std::string with_length(std::uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + rest;
}

// The error for a file with this beginning.
std::string no_length(const std::string& beginning) {
  return "at byte 0: expected a safetensors file, or one that PyTorch saved, got a file that begins with " + beginning +
         ": give the file that lockstep::save() or torch.save() wrote";
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      // The length of the header.
      {"", "at byte 0: expected a safetensors file, or one that PyTorch saved, got a file of 0 bytes"},
      {std::string(7, '\0'),
       "at byte 0: expected a safetensors file, or one that PyTorch saved, got a file of 7 bytes"},
      {std::string(8, '\0'), "at byte 8: expected a header that begins with {, got another"},
      {with_length(3, "{}"),
       "at byte 0: expected a header of 3 bytes, got a file in which 2 bytes follow: it was cut off"},
      {with_length(~0ull, "{}"), no_length(R"("\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd{}")")},
      {with_length(1ull << 63, "{}"), no_length(R"("\u0000\u0000\u0000\u0000\u0000\u0000\u0000\ufffd{}")")},
      {with_length(100'000'001, "{}"), no_length(R"("\u0001\ufffd\ufffd\u0005\u0000\u0000\u0000\u0000{}")")},
      {"A text file, and no model at all", no_length(R"("A text file, and no mode")")},
      // JSON.
      {file_of(" {}"), "at byte 8: expected a header that begins with {, got another"},
      {file_of("[]"), "at byte 8: expected a header that begins with {, got another"},
      {file_of("\xef\xbb\xbf{}"), "at byte 8: expected a header that begins with {, got another"},
      {file_of("{"), "at byte 9: expected JSON with a string, got the end"},
      {file_of("{}}"), "at byte 10: expected JSON with an end, got \"}\""},
      {file_of("{}//"), "expected JSON with an end, got \"//\""},
      {file_of(R"({"x":)"), "expected JSON with a value, got the end"},
      {file_of("{'x':1}"), "expected JSON with a string, got \"'x':1}\""},
      {file_of("{\"\xff\":1}"), "expected JSON with UTF-8 in a string, got \"\\ufffd"},
      {file_of("{\"\\ud800\":1}"), "expected JSON with the second of a surrogate pair, got \"\\\":1}\""},
      {file_of("{\"\\ud800\\u0041\":1}"), "expected JSON with the second of a surrogate pair, got"},
      {file_of("{\"\\udc00\":1}"), "expected JSON with the first of a surrogate pair, got"},
      {file_of("{\"\\u12g4\":1}"), "expected JSON with four digits after \\u, got \"12g4"},
      {file_of("{\"\\u-123\":1}"), "expected JSON with four digits after \\u, got \"-123"},
      {file_of("{\"\\x\":1}"), "expected JSON with an escape, got \"x"},
      {file_of("{\"a\nb\":1}"), "expected JSON with UTF-8 in a string, got \"\\nb"},
      {file_of("{\"abc"), "at byte 13: expected JSON with \" after a string, got the end"},
      {file_of("{\"a\" 1}"), "expected JSON with :, got \"1}\""},
      {file_of(R"({"x":tru})"), "expected JSON with a value, got \"tru}\""},
      {file_of("{\"\xc0\xaf\":1}"), "expected JSON with UTF-8 in a string"},          // overlong
      {file_of("{\"\xe0\x80\xaf\":1}"), "expected JSON with UTF-8 in a string"},      // overlong
      {file_of("{\"\xed\xa0\x80\":1}"), "expected JSON with UTF-8 in a string"},      // half of a surrogate pair
      {file_of("{\"\xf4\x90\x80\x80\":1}"), "expected JSON with UTF-8 in a string"},  // beyond the last character
      {file_of("{\"\xe2\x82\":1}"), "expected JSON with UTF-8 in a string"},          // truncated
      {file_of(std::string("{\0}", 3)), "at byte 9: expected JSON with a string, got \"\\u0000}\""},
      {file_of(std::string("{}\0 any", 7)), "at byte 10: expected JSON with an end, got \"\\u0000 any\""},
      {file_of(std::string("{}\0", 3)), "at byte 10: expected JSON with an end, got \"\\u0000\""},
      {tensor_file(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],)"), "expected JSON with a string, got \"}}\""},
      {tensor_file(R"("dtype":"F32","shape":[01],"data_offsets":[0,4])"), "expected JSON with ], got \"1],"},
      {tensor_file(R"("dtype":"F32","shape":[NaN],"data_offsets":[0,4])"), "expected JSON with a value, got \"NaN],"},
      {tensor_file(R"("dtype":"F32","shape":[1e999],"data_offsets":[0,4])"),
       R"(expected sizes in the shape of tensor "x", got 1e999)"},
      {tensor_file(R"("dtype":"F32","shape":[1.],"data_offsets":[0,4])"), "expected JSON with a digit, got \"],"},
      // Types of values.
      {file_of(R"({"x":1})"), R"(expected an object for tensor "x", got 1)"},
      {file_of(R"({"x":null})"), R"(expected an object for tensor "x", got null)"},
      {file_of(R"({"x":[[[[]]]]})"), R"(expected an object for tensor "x", got an array)"},
      {file_of("{\"x\":" + std::string(1'000'000, '[')), R"(expected an object for tensor "x", got an array)"},
      {tensor_file(R"("dtype":{})"), R"(expected a string for the dtype of tensor "x", got an object)"},
      {tensor_file(R"("dtype":true)"), R"(expected a string for the dtype of tensor "x", got a boolean)"},
      {tensor_file(R"("shape":4)"), R"(expected an array for the shape of tensor "x", got 4)"},
      {tensor_file(R"("shape":[[1]])"), R"(expected sizes in the shape of tensor "x", got an array)"},
      {tensor_file(R"("shape":["1"])"), R"(expected sizes in the shape of tensor "x", got "1")"},
      {tensor_file(R"("shape":[1.0])"), R"(expected sizes in the shape of tensor "x", got 1.0)"},
      {tensor_file(R"("shape":[-1])"), R"(expected sizes in the shape of tensor "x", got -1)"},
      {tensor_file(R"("data_offsets":"0,4")"), R"(expected an array for the data_offsets of tensor "x", got "0,4")"},
      {tensor_file(R"("data_offsets":[])"), R"(expected two numbers in the data_offsets of tensor "x", got 0 numbers)"},
      {tensor_file(R"("data_offsets":[0])"),
       R"(expected two numbers in the data_offsets of tensor "x", got 1 numbers)"},
      {tensor_file(R"("data_offsets":[0,2,4])"), R"(expected two numbers in the data_offsets of tensor "x", got more)"},
      {tensor_file(R"("data_offsets":[-4,0])"), R"(expected two numbers in the data_offsets of tensor "x", got -4)"},
      {tensor_file(R"("strides":[1])"), R"(expected dtype, shape and data_offsets of tensor "x", got "strides")"},
      {tensor_file(""), R"(expected a dtype of tensor "x", got none)"},
      {tensor_file(R"("dtype":"F32","data_offsets":[0,4])"), R"(expected a shape of tensor "x", got none)"},
      {tensor_file(R"("dtype":"F32","shape":[1])"), R"(expected a data_offsets of tensor "x", got none)"},
      // Duplicates.
      {tensor_file(R"("dtype":"F32","dtype":"F32")"), R"(expected one dtype of tensor "x", got it again)"},
      {tensor_file(R"("shape":[1],"shape":[1])"), R"(expected one shape of tensor "x", got it again)"},
      {tensor_file(R"("data_offsets":[0,4],"data_offsets":[0,4])"),
       R"(expected one data_offsets of tensor "x", got it again)"},
      {file_of('{' + entry("x", 0, 2) + ',' + entry("x", 2, 4) + '}', "abcd"),
       R"(expected each tensor once, got "x" again)"},
      {file_of('{' + entry("x", 0, 2) + ',' + entry("\\u0078", 2, 4) + '}', "abcd"),
       R"(expected each tensor once, got "x" again)"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})"), "expected __metadata__ once, got it again"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), R"(expected each name in __metadata__ once, got "a" again)"},
      {file_of(R"({"__metadata__":{"a":1}})"), R"(expected a string for "a" in __metadata__, got 1)"},
      {file_of(R"({"__metadata__":{"a":{}}})"), R"(expected a string for "a" in __metadata__, got an object)"},
      {file_of(R"({"__metadata__":"a"})"), R"(expected an object for __metadata__, got "a")"},
      // Dtypes.
      {tensor_file(R"("dtype":"I8","shape":[4],"data_offsets":[0,4])"),
       R"(expected a dtype of BOOL, U8, I32, I64, F16, BF16, F32 or F64 of tensor "x", got "I8")"},
      {tensor_file(R"("dtype":"U16","shape":[2],"data_offsets":[0,4])"), R"(of tensor "x", got "U16")"},
      {tensor_file(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])"), R"(of tensor "x", got "F8_E4M3")"},
      {tensor_file(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])"), R"(of tensor "x", got "f32")"},
      {tensor_file(R"("dtype":"","shape":[1],"data_offsets":[0,4])"), R"(of tensor "x", got "")"},
      // Sizes.
      {tensor_file(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"),
       R"(expected at most 8 dimensions of tensor "x", got more)"},
      {tensor_file(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4])"),
       R"(expected sizes in the shape of tensor "x", got 9223372036854775808)"},
      {tensor_file(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])"),
       R"(expected sizes in the shape of tensor "x", got 18446744073709551616)"},
      {tensor_file(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", 0),
       R"(expected a shape whose bytes fit 64 bits of tensor "x", got [4611686018427387904])"},
      {tensor_file(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])", 0),
       R"(expected a shape whose bytes fit 64 bits of tensor "x", got [0, 4294967296, 4294967296])"},
      {tensor_file(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
       R"(expected a shape whose bytes fit 64 bits of tensor "x", got [4294967296, 4294967296])"},
      {tensor_file(R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])", 0),
       R"(expected a shape whose bytes fit 64 bits of tensor "x", got [4294967296, 4294967296, 0])"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
       R"(expected data_offsets 8 bytes apart of tensor "x", got [0, 4])"},
      {tensor_file(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"),
       R"(expected data_offsets 4 bytes apart of tensor "x", got [4, 0])"},
      {tensor_file(R"("dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,0])"),
       "expected data_offsets 4 bytes apart"},
      // Positions of the data.
      {tensor_file(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", 3),
       R"(expected data_offsets within 3 bytes of data, got tensor "x" at [0, 4])"},
      {tensor_file(R"("dtype":"U8","shape":[4],"data_offsets":[18446744073709551608,18446744073709551612])"),
       R"(expected data without a hole from byte 0, got tensor "x" at [18446744073709551608, 18446744073709551612])"},
      {tensor_file(R"("dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776])", 0),
       R"(expected data_offsets within 0 bytes of data, got tensor "x" at [0, 1099511627776])"},
      {tensor_file(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", 5),
       "expected tensors over all of the 5 bytes of data, got 4 bytes of them"},
      {file_of("{}", "x"), "expected tensors over all of the 1 bytes of data, got 0 bytes of them"},
      {tensor_file(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"),
       R"(expected data without a hole from byte 0, got tensor "x" at [1, 4])"},
      {file_of('{' + entry("x", 0, 1) + ',' + entry("y", 2, 4) + '}', "abcd"),
       R"(expected data without a hole from byte 1, got tensor "y" at [2, 4])"},
      {file_of('{' + entry("x", 1, 4) + ',' + entry("y", 0, 2) + '}', "abcd"),
       R"(expected data without overlap from byte 2, got tensor "x" at [1, 4])"},
      {file_of('{' + entry("x", 0, 4) + ',' + entry("y", 0, 4) + '}', "abcd"),
       R"(expected data without overlap from byte 4, got tensor "y" at [0, 4])"},
      {file_of('{' + entry("x", 0, 4) + ',' + entry("y", 2, 2) + '}', "abcd"),
       R"(expected data without overlap from byte 4, got tensor "y" at [2, 2])"},
      // Values.
      {file_of(R"({"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", std::string("\0\1\2\0", 4)),
       "at byte 65: expected 0 or 1 for a BOOL, got 2"},
      {file_of(R"({"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", std::string("\7\1\0\0", 4)),
       "at byte 63: expected 0 or 1 for a BOOL, got 7"},
      {file_of(R"({"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", std::string("\0\1\0\7", 4)),
       "at byte 66: expected 0 or 1 for a BOOL, got 7"},
      // Keys in messages are short and printable.
      {file_of("{\"" + std::string(200, 'k') + "\\u0007\":1}"),
       "expected an object for tensor \"" + std::string(120, 'k') + "\"..., got 1"},
      {file_of("{\"\\u001b[2J\":1}"), R"(expected an object for tensor "\u001b[2J", got 1)"},
      {file_of("{\"\x7f \u00df \u20ac \U0001f600\":1}"), R"(for tensor "\u007f \u00df \u20ac \ud83d\ude00", got 1)"},
  };
  return all;
}

TEST(HostileFile, IsRefusedWithTheReason) {
  for (const Case& hostile : cases()) {
    const std::string message = error_of(hostile.bytes);
    EXPECT_TRUE(message.starts_with("[memory] at byte ") && message.find(hostile.message) != message.npos)
        << "expected: " << hostile.message << "\n     got: " << message;
    EXPECT_LT(message.size(), 400u) << message;
  }
}

TEST(HostileFile, OnDiskIsRefusedAlike) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder / "hostile.safetensors").string();
  for (const Case& hostile : cases()) {
    testing::write_file(path, hostile.bytes);
    try {
      load(path);
      FAIL() << hostile.message;
    } catch (const FormatError& error) {
      EXPECT_EQ(error.file, path);
      EXPECT_LE(error.offset, hostile.bytes.size());
      EXPECT_NE(std::string(error.what()).find(hostile.message), std::string::npos) << error.what();
    }
  }
}

TEST(HostileFile, NothingIsAllocatedForTensorsThatAreNotThere) {
  const std::size_t before = memory_stats(Device()).in_use;
  reset_peak_memory(Device());
  for (const Case& hostile : cases())
    if (hostile.message.find("BOOL,") == std::string::npos && hostile.message.find("a BOOL") == std::string::npos)
      error_of(hostile.bytes);
  EXPECT_EQ(memory_stats(Device()).peak_in_use, before);
  EXPECT_EQ(memory_stats(Device()).in_use, before);
}

TEST(HostileFile, ManyTensorsAreReadInTimeThatGrowsWithTheFile) {
  std::string json = "{";
  for (int i = 0; i < 50'000; ++i) json.append(i > 0 ? "," : "").append(entry(std::to_string(i), i, i + 1));
  json += '}';
  EXPECT_EQ(testing::read(file_of(json, std::string(50'000, '\1'))).size(), 50'000u);
}

// Written without checksums, as by other programs, since checksums would reject every change.
std::string valid_file() {
  return file_of(R"({"__metadata__":{"name":"value"},"weight":{"dtype":"F32","shape":[2,2],"data_offsets":[24,40]},)"
                 R"("größe":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},)"
                 R"("mask":{"dtype":"BOOL","shape":[2],"data_offsets":[40,42]}}  )",
                 std::string(40, '\2') + std::string("\1\0", 2));
}

// Sanitizers check the rest. An accepted file must be valid: it can be written again.
void accept_or_refuse(const std::string& bytes) {
  StateDict state;
  try {
    state = testing::read(bytes);
  } catch (const FormatError&) {
    return;
  }
  EXPECT_TRUE(testing::same(testing::read(testing::written(state)), state));
}

TEST(HostileFile, EveryFlippedBitIsAcceptedOrRefused) {
  const std::string valid = valid_file();
  for (std::size_t i = 0; i < valid.size() * 8; ++i) {
    std::string flipped = valid;
    flipped[i / 8] = char(flipped[i / 8] ^ (1 << i % 8));
    accept_or_refuse(flipped);
  }
}

TEST(HostileFile, EveryChangedByteOfTheHeaderIsAcceptedOrRefused) {
  const std::string valid = valid_file();
  for (std::size_t i = 0; i < 100; ++i)
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = valid;
      changed[i] = char(byte);
      accept_or_refuse(changed);
    }
}

TEST(HostileFile, EveryTruncationIsRefused) {
  const std::string valid = valid_file();
  for (std::size_t size = 0; size < valid.size(); ++size) EXPECT_NE(error_of(valid.substr(0, size)), "") << size;
  EXPECT_NE(error_of(valid + '\0'), "");
}

TEST(HostileFile, ThatShrinksWhileItIsReadIsRefused) {
  struct Shrinking final : ByteSource {
    std::string path;
    FileSource file;
    explicit Shrinking(const std::string& name) : path(name), file(name) {}
    const std::string& name() const override { return file.name(); }
    std::uint64_t size() const override { return file.size(); }
    void read(std::uint64_t offset, void* to, std::size_t bytes) override {
      file.read(offset, to, bytes);
      std::filesystem::resize_file(path, 100);
    }
  };
  const testing::TemporaryFolder folder;
  const std::string path = (folder / "a.safetensors").string();
  testing::write_file(path, valid_file());
  Shrinking source(path);
  try {
    safetensors::read(source, {});
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_EQ(error.offset, 100u);
    EXPECT_NE(std::string(error.what()).find("got the end of the file"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep::hostile_file
