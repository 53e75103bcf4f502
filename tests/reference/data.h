// The reference cases of a folder such as tests/reference: ops with arguments, and their tensors.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

#include <nlohmann/json.hpp>

namespace lockstep::reference {

using Json = nlohmann::json;

/// LOCKSTEP_REFERENCE if it is set, else the repository's own folder.
std::string folder();
Json read_json(const std::string& path);
/// The tensors of a safetensors file, on the CPU.
std::map<std::string, Tensor> read_tensors(const std::string& path);

/// The cases of folder(), and those of the repository's own extra/*.json, with the tensors of the safetensors files
/// beside them. A case of extra/ replaces the case of the same name, as a correction, if both have the same inputs.
struct Cases {
  std::vector<Json> list;
  std::map<std::string, Tensor> tensors;
};
Cases read_cases();

/// One call of an op, for a row of the table: inputs by position, arguments by PyTorch's names.
class Call {
 public:
  Call(const Json& json, std::vector<Tensor> inputs) : json_(json), inputs_(std::move(inputs)) {}

  const Tensor& operator[](std::size_t index) const { return inputs_.at(index); }
  const std::vector<Tensor>& inputs() const { return inputs_; }

  bool has(const std::string& name) const { return json_.at("args").contains(name); }
  template <class T>
  T arg(const std::string& name) const {
    read_.insert(name);
    return json_.at("args").at(name).get<T>();
  }
  template <class T>
  T arg(const std::string& name, T otherwise) const {
    return has(name) ? arg<T>(name) : otherwise;
  }
  std::int64_t integer(const std::string& name) const { return arg<std::int64_t>(name); }
  double number(const std::string& name) const { return arg<double>(name); }
  bool flag(const std::string& name) const { return arg<bool>(name); }
  /// One integer or a list of them.
  Shape integers(const std::string& name) const;

  /// Arguments that were not read: a row that forgets one must not pass.
  std::vector<std::string> unread() const;

 private:
  const Json& json_;
  std::vector<Tensor> inputs_;
  mutable std::set<std::string> read_ = {"outputs"};  // "outputs" names the outputs, and is no argument
};

}  // namespace lockstep::reference
