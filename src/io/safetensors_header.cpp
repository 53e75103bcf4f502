#include "io/safetensors_header.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "io/header_checksum.h"

namespace lockstep::safetensors {
namespace {

using nlohmann::json;

struct NamedDType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<NamedDType, 8> kDTypes = {{{"BOOL", kBool},
                                                {"U8", kUInt8},
                                                {"I32", kInt32},
                                                {"I64", kInt64},
                                                {"F16", kFloat16},
                                                {"BF16", kBFloat16},
                                                {"F32", kFloat32},
                                                {"F64", kFloat64}}};

std::string escaped(std::string_view bytes) { return json(bytes).dump(-1, ' ', true, json::error_handler_t::replace); }

std::string text_json(std::string_view utf8) {
  try {
    return json(utf8).dump();
  } catch (const json::exception&) {
    throw InvalidArgument(text("[save] expected UTF-8, got ", shown(utf8)));
  }
}

std::string entry_json(const Entry& entry) {
  const auto named = std::ranges::find(kDTypes, entry.dtype, &NamedDType::dtype);
  const json shape(std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end()));
  return text(R"({"dtype":")", named->name, R"(","shape":)", shape.dump(), R"(,"data_offsets":[)", entry.begin, ',',
              entry.end, "]}");
}

void check_count(const char* what, std::size_t count, std::size_t most) {
  if (count > most) throw InvalidArgument(text("[save] expected at most ", most, ' ', what, ", got ", count));
}

}  // namespace

std::string shown(std::string_view bytes) {
  constexpr std::size_t kLongest = 120;
  return bytes.size() <= kLongest ? escaped(bytes) : escaped(bytes.substr(0, kLongest)) + "...";
}

std::optional<DType> dtype_named(std::string_view name) {
  const auto known = std::ranges::find(kDTypes, name, &NamedDType::name);
  return known == kDTypes.end() ? std::nullopt : std::optional(known->dtype);
}

std::string header_json(const Header& header) {
  check_count("tensors", header.entries.size(), kMaxTensors);
  check_count("texts in the metadata", header.metadata.size(), kMaxTexts - 2);  // two entries are the checksums
  std::string result = '{' + text_json(kMetadataKey) + ":{" + checksums_json(header);
  for (const auto& [name, value] : header.metadata) {
    if (names_checksum(name))
      throw InvalidArgument(
          text("[save] expected a metadata name that is not reserved for checksums, got ", shown(name)));
    result += ',' + text_json(name) + ':' + text_json(value);
  }
  result += '}';
  for (const Entry& entry : header.entries) {
    if (entry.key == kMetadataKey) throw InvalidArgument("[save] expected keys other than __metadata__, got it");
    result += ',' + text_json(entry.key) + ':' + entry_json(entry);
  }
  result += '}';
  result.append((8 - result.size() % 8) % 8, ' ');
  if (result.size() > kMaxHeaderBytes)
    throw InvalidArgument(text("[save] expected a header of at most ", kMaxHeaderBytes, " bytes, got ", result.size()));
  seal_header(result);
  return result;
}

}  // namespace lockstep::safetensors
