#include "io/safetensors_header.h"

#include <algorithm>
#include <array>

#include "core/json_string.h"
#include "core/text.h"
#include "core/utf8.h"
#include "io/header_checksum.h"

namespace lockstep::safetensors {
namespace {

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

// Returns `bytes` as a JSON string of printable ASCII. Bytes that are not UTF-8 become \ufffd.
std::string escaped(std::string_view bytes) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kEscapes = "\"\\bfnrt";
  std::string out = "\"";
  const auto escape = [&](std::uint32_t unit) {
    out += "\\u";
    for (const int shift : {12, 8, 4, 0}) out += "0123456789abcdef"[unit >> shift & 0xf];
  };
  while (!bytes.empty()) {
    const std::size_t length = utf8_bytes(bytes);
    const std::uint32_t code = length > 0 ? code_of(bytes.substr(0, length)) : 0xfffd;
    if (const std::size_t known = kEscaped.find(bytes[0]); known != kEscaped.npos)
      out.append({'\\', kEscapes[known]});
    else if (code >= 0x20 && code < 0x7f)
      out += bytes[0];
    else if (code < 0x10000)
      escape(code);
    else
      escape(0xd7c0 + (code >> 10)), escape(0xdc00 | (code & 0x3ff));  // a surrogate pair
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out + '"';
}

std::string text_json(std::string_view utf8) {
  if (!is_utf8(utf8)) throw InvalidArgument(text("[save] expected UTF-8, got ", shown(utf8)));
  return json_string(utf8);
}

std::string entry_json(const Entry& entry) {
  const auto named = std::ranges::find(kDTypes, entry.dtype, &NamedDType::dtype);
  std::string sizes;
  for (const std::int64_t size : entry.shape) sizes += text(sizes.empty() ? "" : ",", size);
  return text(R"({"dtype":")", named->name, R"(","shape":[)", sizes, R"(],"data_offsets":[)", entry.begin, ',',
              entry.end, "]}");
}

void check_count(const char* what, std::size_t count, std::size_t most) {
  if (count > most) throw InvalidArgument(text("[save] expected at most ", most, ' ', what, ", got ", count));
}

}  // namespace

std::string shown(std::string_view bytes) {
  constexpr std::size_t kLongest = 120;
  return escaped(bytes.substr(0, kLongest)) + (bytes.size() > kLongest ? "..." : "");
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
    if (entry.key == kMetadataKey)
      throw InvalidArgument("[save] expected no tensor with the key __metadata__, which is reserved, got one");
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
