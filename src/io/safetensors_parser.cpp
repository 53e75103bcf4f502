// The parser takes JSON as a sequence of events, so that nothing is built that a header does not have: the depth is
// bounded by the states below, and memory by the number of bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "io/safetensors_header.h"

namespace lockstep::safetensors {
namespace {

using nlohmann::json;

// An iterator that tells how far the parser has read.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** reached;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *reached = ++at;
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

enum class Field : std::uint8_t { dtype, shape, offsets };
constexpr std::array<std::string_view, 3> kFieldNames = {"dtype", "shape", "data_offsets"};

// Each callback checks that it fits the state, and throws FormatError if not.
class Builder final : public nlohmann::json_sax<json> {
 public:
  Builder(const std::string& file, std::string_view text) : file_(file), begin_(text.data()), reached_(text.data()) {}

  const char** reached() { return &reached_; }
  std::uint64_t position() const { return kLengthBytes + std::uint64_t(reached_ - begin_); }

  Header finish(std::uint64_t data_bytes) {
    check_cover(data_bytes);
    Header header;
    header.entries.assign(std::move_iterator(entries_.begin()), std::move_iterator(entries_.end()));
    header.metadata = std::move(metadata_);
    return header;
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& digits) override { unexpected(digits.substr(0, 40)); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::sizes)
      add_size(value);
    else if (state_ == State::offsets)
      add_offset(value);
    else
      unexpected(std::to_string(value));
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::text) {
      metadata_[key_] = std::move(value);
      state_ = State::metadata;
    } else if (state_ == State::dtype) {
      entries_.back().dtype = known_dtype(value);
      state_ = State::entry;
    } else {
      unexpected(shown(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::start)
      state_ = State::root;
    else if (state_ == State::metadata_start)
      state_ = State::metadata;
    else if (state_ == State::entry_start)
      state_ = State::entry;
    else
      unexpected("an object");
    return true;
  }

  bool end_object() override {
    if (state_ == State::entry) {
      check_entry();
      state_ = State::root;
    } else {
      state_ = state_ == State::metadata ? State::root : State::end;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::sizes_start)
      state_ = State::sizes;
    else if (state_ == State::offsets_start)
      state_ = State::offsets;
    else
      unexpected("an array");
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets && offsets_ != 2) unexpected(text(offsets_, " numbers"));
    state_ = State::entry;
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::root)
      begin_entry(name);
    else if (state_ == State::entry)
      begin_field(name);
    else
      begin_text(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what": only the last part says something here.
    std::string_view what = error.what();
    what.remove_prefix(what.find("] ") + 2);
    if (what.starts_with("parse error at ")) what.remove_prefix(what.find(": ") + 2);
    fail(text("expected JSON, got ", shown(what)));
  }

 private:
  enum class State : std::uint8_t {
    start,
    root,
    metadata_start,
    metadata,
    text,
    entry_start,
    entry,
    dtype,
    sizes_start,
    sizes,
    offsets_start,
    offsets,
    end
  };

  [[noreturn]] void fail(std::string_view reason) const { throw FormatError(file_, position(), reason); }

  std::string of_tensor() const { return text(" of tensor ", shown(entries_.back().key)); }

  [[noreturn]] void unexpected(std::string_view got) const {
    std::string expected;
    switch (state_) {
      case State::metadata_start: expected = "an object for __metadata__"; break;
      case State::text: expected = text("a string for ", shown(key_), " in __metadata__"); break;
      case State::entry_start: expected = text("an object for tensor ", shown(entries_.back().key)); break;
      case State::dtype: expected = "a string for the dtype" + of_tensor(); break;
      case State::sizes_start: expected = "an array for the shape" + of_tensor(); break;
      case State::sizes: expected = "sizes in the shape" + of_tensor(); break;
      case State::offsets_start: expected = "an array for the data_offsets" + of_tensor(); break;
      case State::offsets: expected = "two numbers in the data_offsets" + of_tensor(); break;
      default: expected = "an object";
    }
    fail(text("expected ", expected, ", got ", got));
  }

  void begin_entry(const std::string& name) {
    if (name == kMetadataKey) {
      if (has_metadata_) fail("expected __metadata__ once, got it again");
      has_metadata_ = true;
      state_ = State::metadata_start;
      return;
    }
    Entry& entry = entries_.emplace_back();
    entry.key = name;
    if (!keys_.insert(entry.key).second) fail(text("expected each tensor once, got ", shown(name), " again"));
    fields_ = {};
    state_ = State::entry_start;
  }

  void begin_field(const std::string& name) {
    const auto known = std::ranges::find(kFieldNames, name);
    if (known == kFieldNames.end())
      fail(text("expected dtype, shape and data_offsets", of_tensor(), ", got ", shown(name)));
    const auto field = Field(known - kFieldNames.begin());
    if (std::exchange(fields_[std::size_t(field)], true))
      fail(text("expected one ", name, of_tensor(), ", got it again"));
    if (field == Field::dtype) state_ = State::dtype;
    if (field == Field::shape) state_ = State::sizes_start;
    if (field == Field::offsets) state_ = State::offsets_start;
    if (field == Field::offsets) offsets_ = 0;
  }

  void begin_text(const std::string& name) {
    if (!metadata_.emplace(name, "").second)
      fail(text("expected each name in __metadata__ once, got ", shown(name), " again"));
    key_ = name;
    state_ = State::text;
  }

  DType known_dtype(std::string_view name) const {
    if (const auto dtype = safetensors::dtype_named(name)) return *dtype;
    fail(text("expected a dtype of BOOL, U8, I32, I64, F16, BF16, F32 or F64", of_tensor(), ", got ", shown(name)));
  }

  void add_size(std::uint64_t size) {
    Shape& shape = entries_.back().shape;
    if (shape.rank() == Shape::kMaxRank)
      fail(text("expected at most ", Shape::kMaxRank, " dimensions", of_tensor(), ", got more"));
    if (size > std::uint64_t(std::numeric_limits<std::int64_t>::max())) unexpected(std::to_string(size));
    shape.push_back(std::int64_t(size));
  }

  void add_offset(std::uint64_t offset) {
    if (offsets_ == 2) unexpected("more");
    (offsets_++ == 0 ? entries_.back().begin : entries_.back().end) = offset;
  }

  void check_entry() {
    Entry& entry = entries_.back();
    entry.noticed_at = position();
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (!fields_[i]) fail(text("expected a ", kFieldNames[i], of_tensor(), ", got none"));
    // Empty dimensions count as 1, so that strides fit as well.
    std::int64_t room = std::int64_t(size_of(entry.dtype));
    for (const std::int64_t size : entry.shape)
      if (__builtin_mul_overflow(room, std::max<std::int64_t>(size, 1), &room))
        fail(text("expected a shape whose bytes fit 64 bits", of_tensor(), ", got ", entry.shape));
    const std::uint64_t bytes = std::uint64_t(entry.shape.elements()) * size_of(entry.dtype);
    if (entry.end < entry.begin || entry.end - entry.begin != bytes)
      fail(text("expected data_offsets ", bytes, " bytes apart", of_tensor(), ", got [", entry.begin, ", ", entry.end,
                "]"));
  }

  // Whether the entries lie end to end, in any order, from the first byte of the data to the last.
  void check_cover(std::uint64_t data_bytes) {
    std::vector<const Entry*> sorted;
    sorted.reserve(entries_.size());
    for (const Entry& entry : entries_) sorted.push_back(&entry);
    std::ranges::sort(sorted, {}, [](const Entry* entry) { return std::pair(entry->begin, entry->end); });
    std::uint64_t covered = 0;
    for (const Entry* entry : sorted) {
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
      fail(text("expected tensors over all of the ", data_bytes, " bytes of data, got ", covered, " bytes of them"));
  }

  const std::string& file_;
  const char* begin_;
  const char* reached_;
  State state_ = State::start;
  std::deque<Entry> entries_;  // stable, for keys_
  std::set<std::string_view> keys_;
  std::array<bool, kFieldNames.size()> fields_ = {};  // of the last entry, seen so far
  int offsets_ = 0;
  bool has_metadata_ = false;
  std::string key_;  // of the text that is awaited
  Metadata metadata_;
};

}  // namespace

Header parse_header(const std::string& file, std::string_view utf8, std::uint64_t data_bytes) {
  if (!utf8.starts_with('{'))
    throw FormatError(file, kLengthBytes, "expected a header that begins with {, got another");
  // The parser would take a byte 0 for the end, and never look at what follows.
  if (const std::size_t zero = utf8.find('\0'); zero != utf8.npos)
    throw FormatError(file, kLengthBytes + zero, "expected JSON, got a byte 0");
  Builder builder(file, utf8);
  json::sax_parse(Cursor{utf8.data(), builder.reached()}, Cursor{utf8.data() + utf8.size(), builder.reached()},
                  &builder);
  return builder.finish(data_bytes);
}

}  // namespace lockstep::safetensors
