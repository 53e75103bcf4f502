// Checkpoint: everything a training loop needs to resume bit for bit, in one safetensors file.
//
//   Checkpoint checkpoint;
//   checkpoint.put("model", model.state_dict());
//   checkpoint.put("optimizer", optimizer.state_dict());
//   checkpoint.put("schedule", schedule.state_dict());
//   checkpoint.put("loader", loader.state());
//   checkpoint.put("random", current_generator());
//   checkpoint.save("run.safetensors");
//
//   const Checkpoint checkpoint = Checkpoint::load("run.safetensors");
//   load_model(model, checkpoint.tensors("model"));
//   optimizer.load_state_dict(checkpoint.tensors("optimizer"));
//   schedule.load_state_dict(checkpoint.tensors("schedule"));
//   loader.load_state(checkpoint.loader("loader"));
//   set_generator(checkpoint.generator("random"));
//
// In the file, tensors are under "<section>.<key>", and numbers are tensors too. A value; one thread at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <lockstep/data/loader_options.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/nn/module.h>
#include <lockstep/tensor/random.h>

namespace lockstep {

/// Named sections of tensors, numbers and states; the top of this file has an example.
class LOCKSTEP_API Checkpoint {
 public:
  /// Throw InvalidArgument if the section exists already, or if its name is empty or has a dot. Tensors are kept as
  /// handles, not copied, so save the checkpoint before they change.
  void put(std::string_view section, const StateDict& tensors);
  void put(std::string_view section, const data::LoaderState& state);
  void put(std::string_view section, const GeneratorState& generator);
  /// Numbers are kept exactly. Throws InvalidArgument for integers of 2^63 and more.
  template <std::integral T>
  void put(std::string_view section, T number) {
    if constexpr (std::unsigned_integral<T>)
      put_natural(section, number);
    else
      put_integer(section, number);
  }
  void put(std::string_view section, double number);

  bool contains(std::string_view section) const;  ///< True if the section exists.
  /// Throw InvalidArgument if there is no such section, or if it holds something of another kind.
  StateDict tensors(std::string_view section) const;
  data::LoaderState loader(std::string_view section) const;  ///< See tensors().
  GeneratorState generator(std::string_view section) const;  ///< See tensors().
  std::int64_t integer(std::string_view section) const;      ///< See tensors().
  double number(std::string_view section) const;             ///< See tensors().

  /// Texts to keep in the file. Names that begin with "lockstep." are reserved.
  FileMetadata& notes() noexcept { return notes_; }
  const FileMetadata& notes() const noexcept { return notes_; }

  /// Throw as the functions of io/safetensors.h do; load() throws FormatError for a file that is not a checkpoint.
  void save(const std::filesystem::path& path, Links links = Links::follow) const;
  static Checkpoint load(const std::filesystem::path& path, const ReadOptions& options = {});  ///< See save().

 private:
  void put_integer(std::string_view section, std::int64_t number);
  void put_natural(std::string_view section, std::uint64_t number);
  void begin(std::string_view section, std::string_view kind);
  void check(std::string_view section, std::string_view kind) const;
  Tensor values(std::string_view section, std::string_view kind, DType dtype, std::int64_t count) const;

  StateDict tensors_;   // "<section>.<key>", or "<section>" for a number
  FileMetadata kinds_;  // section -> kind: tensors, loader, generator, ...
  FileMetadata notes_;
};

/// Loads parameters and buffers. Keys may begin with "module." or not, so the state of a DataParallel can be loaded
/// into a module without it, and the reverse. Throws as ModuleBase::load_state_dict().
LOCKSTEP_API void load_model(nn::ModuleBase& model, const StateDict& state);

}  // namespace lockstep
