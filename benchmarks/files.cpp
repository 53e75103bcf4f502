// Measures the cost of checksums relative to reading and writing files of tensors.
//   files CASE        CASE: hash read load save
// Uses a file of 256 MB in BENCH_FOLDER, by default in the folder for temporary files. The file is in the page cache: a
// disk would add the same time to all cases.
#include <lockstep/lockstep.h>

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "compare.h"
#include "harness.h"

using namespace lockstep;

namespace {

constexpr std::int64_t kTensors = 16, kElements = 4 << 20;  // of float32: 16 MB each
constexpr std::size_t kBlock = 256 << 10;

std::filesystem::path file() {
  const char* const folder = std::getenv("BENCH_FOLDER");
  return (folder ? std::filesystem::path(folder) : std::filesystem::temp_directory_path()) / "bench.safetensors";
}

StateDict state() {
  StateDict tensors;
  for (std::int64_t i = 0; i < kTensors; ++i) tensors.add(std::to_string(i), rand({kElements}));
  return tensors;
}

// The speed of hashing a tensor's data: from memory, and from a cached block, as read() returns it.
void hash() {
  std::vector<char> bytes(std::size_t(kElements) * 4 * kTensors, 'x');
  std::uint64_t sum = 0;
  bench::run("files/hash_256MB", [&] {
    ++bytes[0];  // so that each call hashes different bytes
    sum += XXH3_64bits(bytes.data(), bytes.size());
  });
  bench::run("files/hash_block_256KB", [&] {
    ++bytes[0];
    sum += XXH3_64bits(bytes.data(), kBlock);
  });
  std::fprintf(stderr, "%llu\n", static_cast<unsigned long long>(sum));
}

// Only reads the file, into one block.
void read() {
  save(state(), file());
  std::vector<char> block(kBlock);
  const int descriptor = ::open(file().c_str(), O_RDONLY);
  bench::run("files/read_256MB", [&] {
    ::lseek(descriptor, 0, SEEK_SET);
    while (::read(descriptor, block.data(), block.size()) > 0) continue;
  });
  ::close(descriptor);
  std::filesystem::remove(file());
}

void load() {
  save(state(), file());
  bench::compare(
      "files/load_256MB_to_unverified", [] { lockstep::load(file()); },
      [] { lockstep::load(file(), {.verify = false}); });
  std::filesystem::remove(file());
}

void save() {
  const StateDict tensors = state();
  bench::run("files/save_256MB", [&] { lockstep::save(tensors, file()); });
  std::filesystem::remove(file());
}

const bench::Cases kCases = {{"hash", hash}, {"read", read}, {"load", load}, {"save", save}};

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(int(bench::from_environment("BENCH_THREADS", 2)));
  return bench::run_case(argc, argv, kCases);
}
