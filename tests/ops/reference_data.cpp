#include "ops/reference_data.h"

#include <cstdlib>
#include <cstring>
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
