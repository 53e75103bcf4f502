#include "io/pickle.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "core/utf8.h"
#include "io/safetensors_header.h"

namespace lockstep::pickle {
namespace {

constexpr std::uint32_t kNothing = 0xffffffff;
constexpr std::string_view kCounter = "collections.Counter";
// Kinds of dicts that a pickle first makes by a call, without elements, and then fills.
constexpr std::string_view kDicts[] = {"collections.OrderedDict", "collections.defaultdict", kCounter};

// Names of rejected opcodes: those before protocol 2, and references to objects outside the pickle.
std::string_view opcode_name(unsigned char opcode) {
  static constexpr std::pair<unsigned char, std::string_view> kNames[] = {
      {'F', "FLOAT"},
      {'I', "INT"},
      {'L', "LONG"},
      {'P', "PERSID"},
      {'S', "STRING"},
      {'T', "BINSTRING"},
      {'U', "SHORT_BINSTRING"},
      {'V', "UNICODE"},
      {'d', "DICT"},
      {'g', "GET"},
      {'i', "INST"},
      {'l', "LIST"},
      {'o', "OBJ"},
      {'p', "PUT"},
      {0x82, "EXT1"},
      {0x83, "EXT2"},
      {0x84, "EXT4"},
      {0x97, "NEXT_BUFFER"},
      {0x98, "READONLY_BUFFER"},
  };
  const auto* found = std::ranges::find(kNames, opcode, [](const auto& named) { return named.first; });
  return found == std::end(kNames) ? "no opcode" : found->second;
}

class Machine {
 public:
  Machine(const std::string& file, std::string_view bytes, std::uint64_t begin,
          const std::vector<std::string_view>& allowed)
      : file_(file), bytes_(bytes), begin_(begin), allowed_(allowed) {}

  Pickle run() {
    while (!step(take<unsigned char>())) {
    }
    if (stack_.size() != 1 || !marks_.empty())
      fail("expected one value at the end, got ", stack_.empty() ? "none" : "more");
    return {std::move(values_), stack_[0], std::move(names_)};
  }

 private:
  // Executes one opcode. Returns true if it was the last.
  bool step(unsigned char opcode) {
    opcode_at_ = at_ - 1;
    switch (opcode) {
      case 0x80: protocol(); break;
      case 0x95: skip(8); break;  // FRAME
      case '.': return true;
      case '(': mark(); break;
      case 'N': push({.kind = Kind::none}); break;
      case 0x88: push({.kind = Kind::boolean, .integer = 1}); break;
      case 0x89: push({.kind = Kind::boolean, .integer = 0}); break;
      case 'J': push({.kind = Kind::integer, .integer = take<std::int32_t>()}); break;
      case 'K': push({.kind = Kind::integer, .integer = take<std::uint8_t>()}); break;
      case 'M': push({.kind = Kind::integer, .integer = take<std::uint16_t>()}); break;
      case 0x8a: long_integer(take<std::uint8_t>()); break;
      case 0x8b: long_integer(take<std::uint32_t>()); break;
      case 'G': push({.kind = Kind::real, .integer = real()}); break;
      case 'X': push({.kind = Kind::text, .text = characters(take<std::uint32_t>())}); break;
      case 0x8c: push({.kind = Kind::text, .text = characters(take<std::uint8_t>())}); break;
      case 0x8d: push({.kind = Kind::text, .text = characters(take<std::uint64_t>())}); break;
      case 'C': bytes(take<std::uint8_t>(), "bytes"); break;
      case 'B': bytes(take<std::uint32_t>(), "bytes"); break;
      case 0x8e: bytes(take<std::uint64_t>(), "bytes"); break;
      case 0x96: bytes(take<std::uint64_t>(), "bytearray"); break;
      case '}': push({.kind = Kind::dict}); break;
      case ']': push({.kind = Kind::list}); break;
      case ')': push({.kind = Kind::tuple}); break;
      case 't': tuple(marked()); break;
      case 0x85: tuple(popped(1)); break;
      case 0x86: tuple(popped(2)); break;
      case 0x87: tuple(popped(3)); break;
      case 'a': append(popped(1), Kind::list); break;
      case 'e': append(marked(), Kind::list); break;
      case 's': append(popped(2), Kind::dict); break;
      case 'u': append(marked(), Kind::dict); break;
      case 0x8f: object("set"); break;
      case 0x90: append(marked(), Kind::object); break;
      case 0x91: marked(), object("frozenset"); break;
      case '0': pop(); break;
      case '1': marked(); break;
      case '2': push_known(position_of_top()); break;
      case 'q': put(take<std::uint8_t>()); break;
      case 'r': put(take<std::uint32_t>()); break;
      case 0x94: put(std::uint32_t(memo_.size())); break;
      case 'h': get(take<std::uint8_t>()); break;
      case 'j': get(take<std::uint32_t>()); break;
      case 'c': global_lines(); break;
      case 0x93: stack_global(); break;
      case 'Q': push({.kind = Kind::persistent, .items = popped(1)}); break;
      case 'R':
      case 0x81: call(popped(2)); break;  // NEWOBJ creates an instance of a class
      case 0x92: {                        // NEWOBJ_EX, with keyword arguments
        std::vector<std::uint32_t> parts = popped(3);
        parts.pop_back();
        call(parts);
        break;
      }
      case 'b': build(); break;
      default:
        fail(text("expected opcodes of pickle protocol 2 to 5, got ", opcode_name(opcode), " (", int(opcode), ")"));
    }
    return false;
  }

  template <class... Reason>
  [[noreturn]] void fail(const Reason&... reason) const {
    throw FormatError(file_, begin_ + opcode_at_, text(reason...));
  }

  void need(std::uint64_t bytes) const {
    if (bytes > bytes_.size() - at_) fail("expected ", bytes, " bytes more of a pickle, got ", bytes_.size() - at_);
  }
  void skip(std::size_t bytes) {
    need(bytes);
    at_ += bytes;
  }
  template <class T>
  T take() {
    if (bytes_.size() - at_ < sizeof(T)) opcode_at_ = at_;
    need(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view characters(std::uint64_t bytes) {
    need(bytes);
    const std::string_view found = bytes_.substr(at_, std::size_t(bytes));
    if (!is_utf8(found)) fail("expected UTF-8 in a text, got ", safetensors::shown(found));
    at_ += std::size_t(bytes);
    return found;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) fail("expected a line of text, got the end of the pickle");
    const std::string_view found = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  void protocol() {
    const int version = take<std::uint8_t>();
    if (version < 2 || version > 5) fail("expected pickle protocol 2 to 5, got ", version);
  }
  // Reads a little-endian integer of any length, in two's complement.
  void long_integer(std::uint64_t size) {
    need(size);
    if (size > 8) return bytes(size, "int");
    std::int64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= std::int64_t(std::uint64_t(std::uint8_t(bytes_[at_ + i])) << (8 * i));
    const bool negative = size > 0 && (std::uint8_t(bytes_[at_ + size - 1]) & 0x80);
    if (negative && size < 8) value -= std::int64_t(1) << (8 * size);
    at_ += size;
    push({.kind = Kind::integer, .integer = value});
  }
  void bytes(std::uint64_t size, std::string_view type) {
    need(size);
    at_ += std::size_t(size);
    object(type);
  }
  std::int64_t real() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | take<std::uint8_t>();
    return std::int64_t(bits);
  }

  void push(Value value) {
    if (values_.size() == kMaxValues) fail("expected at most ", kMaxValues, " values, got more");
    value.at = std::uint32_t(opcode_at_);
    push_known(std::uint32_t(values_.size()));
    values_.push_back(std::move(value));
  }
  void push_known(std::uint32_t position) {
    if (stack_.size() == kMaxValues) fail("expected at most ", kMaxValues, " values on the stack, got more");
    stack_.push_back(position);
  }
  void object(std::string_view type) { push({.kind = Kind::object, .text = type}); }
  void mark() {
    if (marks_.size() == kMaxValues) fail("expected at most ", kMaxValues, " marks, got more");
    marks_.push_back(stack_.size());
  }
  std::vector<std::uint32_t> popped(std::size_t count) {
    const std::size_t available = stack_.size() - (marks_.empty() ? 0 : marks_.back());
    if (count > available) fail("expected ", count, " values on the stack, got ", available);
    std::vector<std::uint32_t> items(stack_.end() - std::ptrdiff_t(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<std::uint32_t> marked() {
    if (marks_.empty()) fail("expected a mark on the stack, got none");
    std::vector<std::uint32_t> items = popped(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  void pop() {
    if (stack_.size() == (marks_.empty() ? 0 : marks_.back()) && !marks_.empty())
      marks_.pop_back();
    else
      popped(1);
  }
  std::uint32_t position_of_top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("expected a value on the stack, got none");
    return stack_.back();
  }
  Value& top() { return values_[position_of_top()]; }

  void tuple(std::vector<std::uint32_t> items) { push({.kind = Kind::tuple, .items = std::move(items)}); }
  // Appends items to the value on top of the stack, which must be of `kind`. If that value is an object, whose content
  // is not kept, drops the items.
  void append(const std::vector<std::uint32_t>& items, Kind kind) {
    Value& to = top();
    if (to.kind == Kind::object) return;
    if (to.kind != kind)
      fail("expected a ",
           kind == Kind::dict   ? "dict"
           : kind == Kind::list ? "list"
                                : "set",
           " on the stack, got something else");
    if (kind == Kind::dict && items.size() % 2 != 0) fail("expected a value for each key, got one key more");
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  void put(std::uint32_t position) {
    position_of_top();
    if (position >= kMaxValues) fail("expected a position in the memo below ", kMaxValues, ", got ", position);
    if (position >= memo_.size()) memo_.resize(position + 1, kNothing);
    memo_[position] = position_of_top();
  }
  void get(std::uint32_t position) {
    if (position >= memo_.size() || memo_[position] == kNothing)
      fail("expected a value in the memo, got none at ", position);
    push_known(memo_[position]);
  }

  // Pushes a global. Checks the length of the name before joining its parts, because many globals may share one long
  // text.
  void global(std::string_view module, std::string_view name) {
    if (module.size() + name.size() >= kMaxNameBytes)
      fail("expected names of at most ", kMaxNameBytes, " bytes, got one of ", module.size() + 1 + name.size());
    const auto [known, is_new] = names_.insert(text(module, '.', name));
    if (is_new && (names_bytes_ += known->size()) > kMaxNamesBytes)
      fail("expected names of at most ", kMaxNamesBytes, " bytes in all, got more");
    const auto found = std::ranges::find(allowed_, *known);
    push({.kind = Kind::global,
          .integer = found == allowed_.end() ? kOtherName : found - allowed_.begin(),
          .text = *known});
  }
  void global_lines() {
    const std::string_view module = line();
    global(module, line());
  }
  void stack_global() {
    const std::vector<std::uint32_t> names = popped(2);
    for (const std::uint32_t name : names)
      if (values_[name].kind != Kind::text) fail("expected two texts for a name, got something else");
    global(values_[names[0]].text, values_[names[1]].text);
  }
  void call(const std::vector<std::uint32_t>& parts) {
    const Value &called = values_[parts[0]], &arguments = values_[parts[1]];
    if ((called.kind != Kind::global && called.kind != Kind::object) || arguments.kind != Kind::tuple)
      fail("expected a function's name and a tuple of its arguments, got something else");
    if (called.kind == Kind::object) return object(called.text);
    if (called.integer != kOtherName)
      return push({.kind = Kind::call, .integer = called.integer, .text = called.text, .items = {parts[1]}});
    if (std::ranges::find(kDicts, called.text) == std::end(kDicts)) return object(called.text);
    // A Counter's argument is a dict of its elements; a defaultdict's is its factory.
    if (called.text == kCounter && arguments.items.size() == 1 && values_[arguments.items[0]].kind == Kind::dict)
      return push_known(arguments.items[0]);
    if (called.text == kDicts[0] && !arguments.items.empty())
      fail("expected an OrderedDict without arguments, got one with arguments");
    push({.kind = Kind::dict});
  }
  // Ignores attributes. In a module's state dict, those of an OrderedDict are the versions of the modules, which are
  // not needed.
  void build() {
    popped(1);
    if (const Kind kind = top().kind; kind != Kind::dict && kind != Kind::object)
      fail("expected BUILD on an object or a dict, got BUILD on something else");
  }

  const std::string& file_;
  std::string_view bytes_;
  std::uint64_t begin_;
  const std::vector<std::string_view>& allowed_;
  std::size_t at_ = 0, opcode_at_ = 0;
  std::deque<Value> values_;
  std::set<std::string, std::less<>> names_;
  std::size_t names_bytes_ = 0;
  std::vector<std::uint32_t> stack_, memo_;
  std::vector<std::size_t> marks_;
};

}  // namespace

Pickle parse(const std::string& file, std::string_view bytes, std::uint64_t begin,
             const std::vector<std::string_view>& allowed) {
  return Machine(file, bytes, begin, allowed).run();
}

}  // namespace lockstep::pickle
