// Headers of many megabytes, made to be expensive: reading them takes memory and time in proportion to their size.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <fstream>
#include <iostream>

#include <lockstep/io/safetensors.h>

#include "io/killed_child.h"
#include "io/memory_source.h"
#include "support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::KilledChild;

constexpr std::size_t kBytes = 32'000'000;
constexpr const char* kLargeFile = "large.safetensors";

// The peak memory of this process. (getrusage() would include the process before exec.)
std::int64_t peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      std::int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes;
    }
  return 0;
}

std::int64_t processor_ms() {
  struct rusage used;
  ::getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& time) { return std::int64_t(time.tv_sec) * 1000 + time.tv_usec / 1000; };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

// Not a test: the child's work. The child does nothing else, so its memory and time can be measured.
TEST(LargeHeaderChild, DISABLED_Reads) {
  const std::string path = KilledChild::folder() + '/' + kLargeFile;
  const std::int64_t memory = peak_kilobytes(), time = processor_ms();
  try {
    load(path);
  } catch (const FormatError&) {
  }
  KilledChild::report(peak_kilobytes() - memory);
  KilledChild::report(processor_ms() - time);
  while (KilledChild::folder() != "") std::this_thread::sleep_for(std::chrono::seconds(1));
}

std::string many(const std::string& before, const std::string& after, std::size_t bytes) {
  std::string all;
  for (int i = 0; all.size() < bytes; ++i) {
    all += i > 0 ? ",\"" : "\"";
    for (int left = i; left > 0; left /= 26) all += char('a' + left % 26);
    all += before;
  }
  return all + after;
}

struct Costly {
  const char* name;
  std::string json;
};

std::vector<Costly> costly_headers() {
  const std::string empty = R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  return {{"texts", R"({"__metadata__":{)" + many("\":\"\"", "}}", kBytes)},
          {"tensors", "{" + many(empty, "}", kBytes)},
          {"a key", "{\"" + std::string(kBytes, 'k') + empty + "}"},
          {"a text", R"({"__metadata__":{"a":")" + std::string(kBytes, 'x') + "\"}}"},
          {"blanks", "{" + std::string(kBytes, ' ') + "}"},
          {"digits", R"({"x":{"dtype":"U8","shape":[)" + std::string(kBytes, '1') + "]}}"},
          {"brackets", R"({"x":)" + std::string(kBytes, '[') + "}"}};
}

TEST(LargeHeader, TakesAFewTimesItsSizeInMemoryAndLittleTime) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  const testing::TemporaryFolder folder;
  for (const Costly& header : costly_headers()) {
    testing::write_file(folder / kLargeFile, testing::file_of(header.json));
    KilledChild child("LargeHeaderChild.DISABLED_Reads", folder.path());
    const double multiple = double(child.next()) * 1024 / double(kBytes), ms = double(child.next());
    child.kill(0);
    std::cout << header.name << ": " << multiple << " times the header, " << ms << " ms\n";
    EXPECT_GT(multiple, 0.9) << header.name;
    EXPECT_LT(multiple, 4.5) << header.name;
    EXPECT_LT(ms, 2000) << header.name;
  }
}

// A file with the most tensors allowed takes no more memory than docs/files.md says.
TEST(LargeHeader, HasNoMoreTensorsAndTextsThanMayBe) {
  const auto refusal = [](const std::string& json) {
    try {
      testing::read(testing::file_of(json));
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("{" + many(R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})", "}", 16'000'000))
                .find("expected at most 262144 tensors, got more"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"__metadata__":{)" + many("\":\"\"", "}}", 1'000'000))
                .find("expected at most 65536 texts in __metadata__, got more"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
