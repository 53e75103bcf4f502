// State dicts: tensors by key, in the order of the members they come from.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Tensors by key, in the order in which they were added.
class LOCKSTEP_API StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;  ///< A key and its tensor.

  /// Throws InvalidArgument if the dict has the key.
  void add(std::string key, Tensor value);
  /// Null if the dict does not have the key.
  const Tensor* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }  ///< True if the dict has the key.
  /// The tensor of a key. If the dict does not have the key, the const version throws InvalidArgument, and the other
  /// version adds the key with an undefined tensor, as std::map does: state["bias"] = zeros({3}).
  const Tensor& operator[](std::string_view key) const { return at(key); }
  Tensor& operator[](std::string_view key);
  /// Removes a key; returns false if the dict did not have it.
  bool erase(std::string_view key);
  /// Throws InvalidArgument if the dict does not have the key.
  const Tensor& at(std::string_view key) const;

  std::size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return entries_.empty(); }
  auto begin() const noexcept { return entries_.begin(); }
  auto end() const noexcept { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> positions_;  // by key
};

struct LoadOptions {
  bool strict = true;                  ///< Refuse missing and unexpected keys.
  std::string_view strip_prefix = {};  ///< Removed from the front of each key that begins with it.
};

/// The keys that a load with strict = false skipped.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     ///< Keys that the module has and the state dict does not have.
  std::vector<std::string> unexpected_keys;  ///< Keys that the state dict has and the module does not have.
};

}  // namespace lockstep
