#include <lockstep/train/checkpoint_folder.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>

#include <lockstep/io/atomic_file.h>

#include "core/text.h"
#include "io/byte_source.h"
#include "io/path.h"
#include "io/safetensors_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";

std::string file_name(std::int64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%012lld", static_cast<long long>(step));
  return text(kPrefix, digits, kSuffix);
}

// Returns the step in a name that file_name() made; nullopt for other names.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || step < 0 || name != file_name(step)) return {};
  return step;
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  check_path("checkpoint", folder);
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (const auto step = step_of(entry->path().filename().string())) steps.push_back(*step);
  if (error && error != std::errc::no_such_file_or_directory) throw IoError("read", folder.string(), error.value());
  std::ranges::sort(steps);
  return steps;
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, const CheckpointFolderOptions& options)
    : folder_(std::move(folder)), options_(options) {
  if (options.every < 1 || options.keep < 0)
    throw InvalidArgument(
        text("[checkpoint] expected every >= 1 and keep >= 0, got ", options.every, " and ", options.keep));
  check_path("checkpoint", folder_);
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw IoError("mkdir", folder_.string(), error.value());
}

void CheckpointFolder::save(std::int64_t step, const Checkpoint& checkpoint) const {
  if (step < 0) throw InvalidArgument(text("[checkpoint] expected a step of at least 0, got ", step));
  set_aside_if_damaged(step);
  checkpoint.save(path(step), Links::refuse);
  intact_[step] = true;
  AtomicFile::remove_leftovers(folder_);
  if (options_.keep == 0) return;
  const std::vector<std::int64_t> all = steps();
  std::int64_t kept = 0;
  for (const std::int64_t old : std::vector(all.rbegin(), all.rend())) {
    if (old > step || !is_intact(old) || ++kept <= options_.keep) continue;
    std::error_code error;
    fs::remove(path(old), error);
    if (error) throw IoError("unlink", path(old).string(), error.value());
  }
}

bool CheckpointFolder::is_intact(std::int64_t step) const {
  const auto [known, is_new] = intact_.try_emplace(step, false);
  if (!is_new) return known->second;
  try {
    FileSource source(path(step), Links::refuse);
    safetensors::verify(source);
    known->second = true;
  } catch (const Error&) {
  }
  return known->second;
}

void CheckpointFolder::set_aside_if_damaged(std::int64_t step) const {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path(step), error)) || is_intact(step)) return;
  fs::path aside = path(step);
  aside += ".damaged";
  fs::rename(path(step), aside, error);
  if (error) throw IoError("rename", path(step).string(), error.value());
}

std::vector<std::int64_t> CheckpointFolder::steps() const { return steps_in(folder_); }

std::optional<std::int64_t> CheckpointFolder::latest() const {
  const std::vector<std::int64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

fs::path CheckpointFolder::path(std::int64_t step) const { return folder_ / file_name(step); }

Checkpoint CheckpointFolder::load(std::int64_t step, const ReadOptions& options) const {
  ReadOptions here = options;
  here.links = Links::refuse;
  return Checkpoint::load(path(step), here);
}

std::optional<fs::path> latest_checkpoint(const fs::path& folder) {
  const std::vector<std::int64_t> steps = steps_in(folder);
  if (steps.empty()) return {};
  return folder / file_name(steps.back());
}

}  // namespace lockstep
