#include <lockstep/train/checkpoint.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <lockstep/tensor/creation.h>

#include "core/expect.h"
#include "core/listed.h"
#include "core/text.h"
#include "io/byte_source.h"
#include "io/safetensors_file.h"
#include "nn/each_state.h"

namespace lockstep {
namespace {

// Metadata with the version of the file's layout, for later versions of the library.
constexpr std::string_view kVersionName = "lockstep.checkpoint";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kKindPrefix = "lockstep.section.";
constexpr std::string_view kReserved = "lockstep.";

constexpr std::string_view kTensors = "tensors";
constexpr std::string_view kLoader = "loader";
constexpr std::string_view kGenerator = "generator";
constexpr std::string_view kInteger = "integer";
constexpr std::string_view kNumber = "number";

template <class T, std::size_t N>
Tensor from_values(const std::array<T, N>& values) {
  return from_host(values.data(), N, kDTypeOf<T>, {std::int64_t(N)});
}

constexpr std::string_view kWrapper = "module.";

std::string wrapped(const std::string& key) { return std::string(kWrapper) + key; }
std::string unwrapped(const std::string& key) { return key.starts_with(kWrapper) ? key.substr(kWrapper.size()) : key; }

}  // namespace

void Checkpoint::begin(std::string_view section, std::string_view kind) {
  expect(!section.empty() && section.find('.') == section.npos, "checkpoint", "a section's name without a dot, got \"",
         section, '"');
  if (!kinds_.emplace(section, kind).second)
    throw InvalidArgument(text("[checkpoint] expected each section once, got \"", section, "\" again"));
}

void Checkpoint::check(std::string_view section, std::string_view kind) const {
  const auto found = kinds_.find(std::string(section));
  if (found == kinds_.end())
    throw InvalidArgument(text("[checkpoint] expected an existing section (",
                               listed(kinds_, [](const auto& each) { return each.first; }), "), got ", section));
  expect(found->second == kind, "checkpoint", kind, " in section \"", section, "\", got ", found->second);
}

Tensor Checkpoint::values(std::string_view section, std::string_view kind, DType dtype, std::int64_t count) const {
  check(section, kind);
  const Tensor* values = tensors_.find(section);
  expect(values && values->dtype() == dtype && values->numel() == count, "checkpoint", count, " numbers of ", dtype,
         " in section \"", section, "\", got others");
  return *values;
}

bool Checkpoint::contains(std::string_view section) const { return kinds_.contains(std::string(section)); }

void Checkpoint::put(std::string_view section, const StateDict& tensors) {
  begin(section, kTensors);
  for (const auto& [key, tensor] : tensors) tensors_.add(text(section, '.', key), tensor);
}

void Checkpoint::put(std::string_view section, const data::LoaderState& state) {
  begin(section, kLoader);
  tensors_.add(std::string(section),
               from_values<std::int64_t, 4>({std::int64_t(state.seed), state.epoch, state.batch, state.batch_size}));
}

void Checkpoint::put(std::string_view section, const GeneratorState& generator) {
  begin(section, kGenerator);
  tensors_.add(std::string(section),
               from_values<std::int64_t, 3>(
                   {std::int64_t(generator.seed), std::int64_t(generator.stream), std::int64_t(generator.offset)}));
}

void Checkpoint::put_integer(std::string_view section, std::int64_t number) {
  begin(section, kInteger);
  tensors_.add(std::string(section), from_values<std::int64_t, 1>({number}));
}

void Checkpoint::put_natural(std::string_view section, std::uint64_t number) {
  expect(std::in_range<std::int64_t>(number), "checkpoint", "a number below 2^63, got ", number);
  put_integer(section, std::int64_t(number));
}

void Checkpoint::put(std::string_view section, double number) {
  begin(section, kNumber);
  tensors_.add(std::string(section), from_values<double, 1>({number}));
}

StateDict Checkpoint::tensors(std::string_view section) const {
  check(section, kTensors);
  const std::string prefix = text(section, '.');
  StateDict state;
  for (const auto& [key, tensor] : tensors_)
    if (key.starts_with(prefix)) state.add(key.substr(prefix.size()), tensor);
  return state;
}

data::LoaderState Checkpoint::loader(std::string_view section) const {
  const auto numbers = values(section, kLoader, kInt64, 4).to_vector<std::int64_t>();
  return {.seed = std::uint64_t(numbers[0]), .epoch = numbers[1], .batch = numbers[2], .batch_size = numbers[3]};
}

GeneratorState Checkpoint::generator(std::string_view section) const {
  const auto numbers = values(section, kGenerator, kInt64, 3).to_vector<std::int64_t>();
  return {std::uint64_t(numbers[0]), std::uint64_t(numbers[1]), std::uint64_t(numbers[2])};
}

std::int64_t Checkpoint::integer(std::string_view section) const {
  return values(section, kInteger, kInt64, 1).item<std::int64_t>();
}

double Checkpoint::number(std::string_view section) const {
  return values(section, kNumber, kFloat64, 1).item<double>();
}

void Checkpoint::save(const std::filesystem::path& path, Links links) const {
  FileMetadata metadata;
  for (const auto& [name, note] : notes_) {
    expect(!name.starts_with(kReserved), "checkpoint", "notes whose names do not begin with ", kReserved, ", got ",
           name);
    metadata.emplace(name, note);
  }
  metadata.emplace(kVersionName, kVersion);
  for (const auto& [section, kind] : kinds_) metadata.emplace(text(kKindPrefix, section), kind);
  AtomicFile file(path, links);
  safetensors::write(tensors_, metadata, [&](auto... piece) { file.write_at(piece...); });
  file.commit();
}

Checkpoint Checkpoint::load(const std::filesystem::path& path, const ReadOptions& options) {
  Checkpoint checkpoint;
  FileSource source(path, options.links);
  auto [tensors, metadata] = safetensors::read(source, options);
  if (const auto version = metadata.find(std::string(kVersionName));
      version == metadata.end() || version->second != kVersion)
    throw FormatError(path.string(), 0,
                      text("expected a checkpoint of version ", kVersion, ", got ",
                           version == metadata.end() ? "a file that is no checkpoint" : version->second));
  checkpoint.tensors_ = std::move(tensors);
  for (const auto& [name, value] : metadata) {
    if (name.starts_with(kKindPrefix))
      checkpoint.kinds_.emplace(name.substr(kKindPrefix.size()), value);
    else if (!name.starts_with(kReserved))
      checkpoint.notes_.emplace(name, value);
  }
  return checkpoint;
}

// Tries the keys of `state` as they are, without their first "module.", and with one "module." more. Loads them in the
// form in which most of them are names in the model.
void load_model(nn::ModuleBase& model, const StateDict& state) {
  std::set<std::string> keys;
  nn::for_each_state(model, [&](const nn::Path& path, const nn::State&) { keys.insert(path.str()); });
  std::array<std::int64_t, 3> known = {};
  for (const auto& [key, tensor] : state) {
    known[0] += keys.contains(key);
    known[1] += keys.contains(unwrapped(key));
    known[2] += keys.contains(wrapped(key));
  }
  const auto best = std::ranges::max_element(known) - known.begin();
  if (best == 2) {
    StateDict renamed;
    for (const auto& [key, tensor] : state) renamed.add(wrapped(key), tensor);
    model.load_state_dict(renamed);
  } else {
    model.load_state_dict(state, {.strip_prefix = best == 1 ? kWrapper : std::string_view()});
  }
}

}  // namespace lockstep
