#include "reference/data.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <lockstep/tensor/creation.h>

namespace lockstep::reference {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

Shape shape_of(const Json& json) { return Shape(std::span<const std::int64_t>(json.get<std::vector<std::int64_t>>())); }

using Tensors = std::map<std::string, Tensor>;

bool same_inputs(const Json& a, const Tensors& of_a, const Json& b, const Tensors& of_b) {
  if (a.at("inputs").size() != b.at("inputs").size()) return false;
  for (std::size_t i = 0; i < a.at("inputs").size(); ++i) {
    const Tensor &x = of_a.at(a.at("inputs")[i]), &y = of_b.at(b.at("inputs")[i]);
    if (x.sizes() != y.sizes() || x.to(kFloat64).to_vector<double>() != y.to(kFloat64).to_vector<double>())
      return false;
  }
  return true;
}

void add_extra(Cases& all, const std::filesystem::path& path) {
  const Tensors tensors = read_tensors(std::filesystem::path(path).replace_extension("safetensors"));
  for (const Json& json : read_json(path)) {
    const auto same_name = std::find_if(all.list.begin(), all.list.end(),
                                        [&](const Json& other) { return other.at("case") == json.at("case"); });
    const bool is_new = same_name == all.list.end();
    if (!is_new && !same_inputs(*same_name, all.tensors, json, tensors)) continue;
    is_new ? all.list.push_back(json) : void(*same_name = json);
    for (const char* const kind : {"inputs", "outputs", "seeds", "grads"})
      for (const Json& name : json.at(kind))
        if (name.is_string()) all.tensors[name] = tensors.at(name);
  }
}

}  // namespace

std::string folder() {
  const char* const given = std::getenv("LOCKSTEP_REFERENCE");
  return given && *given ? given : LOCKSTEP_REFERENCE_FOLDER;
}

Json read_json(const std::string& path) { return Json::parse(read_file(path)); }

std::map<std::string, Tensor> read_tensors(const std::string& path) {
  static const std::map<std::string, DType> dtypes = {
      {"BOOL", kBool}, {"I64", kInt64}, {"F32", kFloat32}, {"F64", kFloat64}};
  const std::string file = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::size_t data = sizeof length + length;
  std::map<std::string, Tensor> tensors;
  const Json header = Json::parse(file.substr(sizeof length, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const DType dtype = dtypes.at(entry.at("dtype"));
    const std::size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
    const std::string bytes = file.substr(data + begin, end - begin);
    tensors[name] =
        from_host(bytes.data(), bytes.size() / size_of(dtype), dtype, shape_of(entry.at("shape")), {.dtype = dtype});
  }
  return tensors;
}

Cases read_cases() {
  Cases all = {read_json(folder() + "/ops.json").get<std::vector<Json>>(), read_tensors(folder() + "/ops.safetensors")};
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_REFERENCE_FOLDER "/extra"))
    if (entry.path().extension() == ".json") add_extra(all, entry.path());
  return all;
}

Shape Call::integers(const std::string& name) const {
  const Json value = arg<Json>(name);
  return value.is_array() ? shape_of(value) : Shape{value.get<std::int64_t>()};
}

std::vector<std::string> Call::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : json_.at("args").items())
    if (!read_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace lockstep::reference
