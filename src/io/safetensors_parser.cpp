#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/text.h"
#include "io/json_scanner.h"
#include "io/safetensors_header.h"
#include "io/tensor_bytes.h"

namespace lockstep::safetensors {
namespace {

enum Field : std::uint8_t { dtype, shape, offsets };
constexpr std::array<std::string_view, 3> kFieldNames = {"dtype", "shape", "data_offsets"};

class Parser {
 public:
  Parser(const std::string& file, std::string_view utf8) : file_(file), json_(file, utf8, kLengthBytes) {}

  Header parse(std::uint64_t data_bytes) {
    json_.object([this](std::string name) {
      if (name == kMetadataKey)
        metadata();
      else
        entry(std::move(name));
    });
    json_.expect_end();
    check_keys();
    check_cover(data_bytes);
    return std::move(header_);
  }

 private:
  std::string of_tensor() const { return text(" of tensor ", shown(header_.entries.back().key)); }

  // Throws unless the next value begins with this byte; expected() describes the expected value.
  template <class Expected>
  void need(char first, const Expected& expected) {
    if (json_.peek() != first) json_.fail("expected ", expected(), ", got ", json_.described());
  }

  template <class Expected>
  std::uint64_t natural(const Expected& expected) {
    const char first = json_.peek();
    if (first != '-' && (first < '0' || first > '9')) need('0', expected);
    const std::string_view digits = json_.number();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    constexpr std::size_t kShown = 40;
    if (error != std::errc() || end != digits.end())
      json_.fail("expected ", expected(), ", got ", digits.substr(0, kShown));
    return value;
  }

  void metadata() {
    if (std::exchange(has_metadata_, true)) json_.fail("expected __metadata__ once, got it again");
    need('{', [] { return "an object for __metadata__"; });
    json_.object([this](std::string name) {
      if (header_.metadata.size() == kMaxTexts)
        json_.fail("expected at most ", kMaxTexts, " texts in __metadata__, got more");
      const auto inserted = header_.metadata.try_emplace(std::move(name));
      const auto& place = inserted.first;
      if (!inserted.second) json_.fail("expected each name in __metadata__ once, got ", shown(place->first), " again");
      need('"', [&] { return text("a string for ", shown(place->first), " in __metadata__"); });
      place->second = json_.string();
    });
  }

  void entry(std::string key) {
    if (header_.entries.size() == kMaxTensors) json_.fail("expected at most ", kMaxTensors, " tensors, got more");
    Entry& entry = header_.entries.emplace_back();
    entry.key = std::move(key);
    need('{', [&] { return text("an object for tensor ", shown(entry.key)); });
    std::array<bool, kFieldNames.size()> has = {};
    json_.object([&](const std::string& name) {
      const auto known = std::size_t(std::ranges::find(kFieldNames, name) - kFieldNames.begin());
      if (known == kFieldNames.size())
        json_.fail("expected dtype, shape and data_offsets", of_tensor(), ", got ", shown(name));
      if (std::exchange(has[known], true)) json_.fail("expected one ", name, of_tensor(), ", got it again");
      if (known == dtype) read_dtype(entry);
      if (known == shape) read_shape(entry);
      if (known == offsets) read_offsets(entry);
    });
    for (std::size_t i = 0; i < has.size(); ++i)
      if (!has[i]) json_.fail("expected a ", kFieldNames[i], of_tensor(), ", got none");
    entry.noticed_at = json_.position();
    check_entry(entry);
  }

  void read_dtype(Entry& entry) {
    need('"', [&] { return "a string for the dtype" + of_tensor(); });
    const std::string name = json_.string();
    const auto known = dtype_named(name);
    if (!known)
      json_.fail("expected a dtype of BOOL, U8, I32, I64, F16, BF16, F32 or F64", of_tensor(), ", got ", shown(name));
    entry.dtype = *known;
  }

  void read_shape(Entry& entry) {
    need('[', [&] { return "an array for the shape" + of_tensor(); });
    const auto expected = [&] { return "sizes in the shape" + of_tensor(); };
    json_.array([&] {
      const std::uint64_t size = natural(expected);
      if (entry.shape.rank() == Shape::kMaxRank)
        json_.fail("expected at most ", Shape::kMaxRank, " dimensions", of_tensor(), ", got more");
      if (size > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
        json_.fail("expected ", expected(), ", got ", size);
      entry.shape.push_back(std::int64_t(size));
    });
  }

  void read_offsets(Entry& entry) {
    need('[', [&] { return "an array for the data_offsets" + of_tensor(); });
    const auto expected = [&] { return "two numbers in the data_offsets" + of_tensor(); };
    int count = 0;
    json_.array([&] {
      const std::uint64_t offset = natural(expected);
      if (count == 2) json_.fail("expected ", expected(), ", got more");
      (count++ == 0 ? entry.begin : entry.end) = offset;
    });
    if (count != 2) json_.fail("expected ", expected(), ", got ", count, " numbers");
  }

  void check_entry(const Entry& entry) {
    // tensor_bytes() counts sizes of 0 as 1, so that the strides fit 64 bits too.
    const std::optional<std::uint64_t> bytes = tensor_bytes(entry.shape, entry.dtype);
    if (!bytes) json_.fail("expected a shape whose bytes fit 64 bits", of_tensor(), ", got ", entry.shape);
    if (entry.end < entry.begin || entry.end - entry.begin != *bytes)
      json_.fail("expected data_offsets ", *bytes, " bytes apart", of_tensor(), ", got [", entry.begin, ", ", entry.end,
                 "]");
  }

  template <class Less>
  std::vector<const Entry*> sorted(const Less& less) const {
    std::vector<const Entry*> pointers;
    pointers.reserve(header_.entries.size());
    for (const Entry& entry : header_.entries) pointers.push_back(&entry);
    std::ranges::sort(pointers, less);
    return pointers;
  }

  void check_keys() const {
    const auto by_key = sorted([](const Entry* a, const Entry* b) { return a->key < b->key; });
    const auto same = [](const Entry* a, const Entry* b) { return a->key == b->key; };
    if (const auto twice = std::ranges::adjacent_find(by_key, same); twice != by_key.end())
      throw FormatError(file_, std::max(twice[0]->noticed_at, twice[1]->noticed_at),
                        text("expected each tensor once, got ", shown((*twice)->key), " again"));
  }

  // Checks that the entries cover the data from the first byte to the last, in any order, without gaps.
  void check_cover(std::uint64_t data_bytes) const {
    const auto place = [](const Entry* entry) { return std::pair(entry->begin, entry->end); };
    std::uint64_t covered = 0;
    for (const Entry* entry : sorted([&](const Entry*a, const Entry*b) { return place(a) < place(b); })) {
      const auto refuse = [&](const auto&... reason) {
        throw FormatError(file_, entry->noticed_at,
                          text("expected ", reason..., ", got tensor ", shown(entry->key), " at [", entry->begin, ", ",
                               entry->end, "]"));
      };
      if (entry->begin > covered) refuse("data without a hole from byte ", covered);
      if (entry->begin < covered) refuse("data without overlap from byte ", covered);
      if (entry->end > data_bytes) refuse("data_offsets within ", data_bytes, " bytes of data");
      covered = entry->end;
    }
    if (covered != data_bytes)
      json_.fail("expected tensors over all of the ", data_bytes, " bytes of data, got ", covered, " bytes of them");
  }

  const std::string& file_;
  JsonScanner json_;
  bool has_metadata_ = false;
  Header header_;
};

}  // namespace

Header parse_header(const std::string& file, std::string_view utf8, std::uint64_t data_bytes) {
  if (!utf8.starts_with('{'))
    throw FormatError(file, kLengthBytes, "expected a header that begins with {, got another");
  return Parser(file, utf8).parse(data_bytes);
}

}  // namespace lockstep::safetensors
