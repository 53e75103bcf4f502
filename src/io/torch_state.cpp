#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/text.h"
#include "io/pickle.h"
#include "io/safetensors_header.h"
#include "io/torch_file.h"

namespace lockstep::torch_file {
namespace {

using pickle::Kind;
using pickle::Value;
using safetensors::shown;

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxSkipped = safetensors::kMaxTexts;
// The beginnings of the names of functions that rebuild tensors of kinds that Lockstep does not have: quantized,
// sparse, subclasses.
constexpr std::string_view kOtherTensors[] = {"torch._utils._rebuild_", "torch._tensor._rebuild_"};
// Limits on the bytes of all names together: at most kMaxNameBytes, and at most kLeastNameBytes plus
// kMaxNameBytesPerByte for each byte of the pickle. Without them a small pickle could ask for very many names, since
// many values may share one long key.
constexpr std::size_t kMaxNameBytes = 64 << 20, kMaxNameBytesPerByte = 16, kLeastNameBytes = 1 << 20;

const std::vector<std::string_view> kAllowed = {
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    "torch.Size",
    "torch.BoolStorage",
    "torch.ByteStorage",
    "torch.IntStorage",
    "torch.LongStorage",
    "torch.HalfStorage",
    "torch.BFloat16Storage",
    "torch.FloatStorage",
    "torch.DoubleStorage",
};
enum Allowed : std::int64_t { kTensor, kParameter, kSize, kFirstStorage };
constexpr DType kStorageDTypes[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"None",   "a boolean", "an integer",    "a float",   "a text", "a tuple",
                                         "a list", "a dict",    "a global name", "a storage", "a call", "an object"};
  return kNames[std::size_t(kind)];
}

// The name of a value: its key, preceded by those of the dicts and lists that contain it. The full text is only built
// for names that are kept, since very many values may share a long key.
struct Name {
  const Name* parent = nullptr;
  std::string_view key = {};
  std::size_t index = 0;  // the position in a list, which has no keys
  bool has_key = true;

  std::size_t size() const {
    const std::size_t own = has_key ? key.size() : std::to_string(index).size();
    return parent ? parent->size() + 1 + own : own;
  }
  std::string full() const {
    const std::string own = has_key ? std::string(key) : std::to_string(index);
    return parent ? parent->full() + '.' + own : own;
  }
};

class Reader {
 public:
  Reader(const std::string& file, const pickle::Pickle& pickle, std::size_t bytes, std::uint64_t begin)
      : file_(file),
        values_(pickle.values),
        begin_(begin),
        max_name_bytes_(std::min(kMaxNameBytes, kLeastNameBytes + kMaxNameBytesPerByte * bytes)) {}

  State read(std::uint32_t root) {
    const Value& top = values_[root];
    if (top.kind != Kind::dict && top.kind != Kind::list && top.kind != Kind::tuple)
      fail(top, "expected a state dict, got ", described(top), ": save a dict of tensors, as state_dict() gives one");
    add_all(root, nullptr, 0);
    return std::move(state_);
  }

 private:
  template <class... Reason>
  [[noreturn]] void fail(const Value& at, const Reason&... reason) const {
    throw FormatError(file_, begin_ + at.at, text(reason...));
  }
  static std::string described(const Value& value) {
    if (value.kind == Kind::call && value.integer <= kParameter) return "a tensor";
    return value.text.empty() ? std::string(kind_name(value.kind)) : shown(value.text);
  }

  void add(std::uint32_t position, const Name& name, int depth) {
    const Value& value = values_[position];
    switch (value.kind) {
      case Kind::none: return;
      case Kind::text: return add_text(value, name);
      case Kind::boolean: return add_entry(value, name, value.integer != 0);
      case Kind::integer: return add_entry(value, name, value.integer);
      case Kind::real: return add_entry(value, name, value.real());
      case Kind::call:
        if (value.integer == kSize) break;
        return add_entry(value, name, tensor(value, 0));
      case Kind::dict:
      case Kind::list:
      case Kind::tuple: break;
      case Kind::object:
        for (const std::string_view begin : kOtherTensors)
          if (value.text.starts_with(begin))
            fail(value, "expected dense tensors of class torch.Tensor or torch.nn.Parameter, got ", shown(name.full()),
                 " by ", shown(value.text));
        [[fallthrough]];
      case Kind::global: {
        const std::string type = shown(value.text);
        return leave_out(value, name, type.substr(1, type.size() - 2));  // without the quotes
      }
      case Kind::persistent: fail(value, "expected a value for ", shown(name.full()), ", got ", described(value));
    }
    add_all(position, &name, depth);
  }

  void add_all(std::uint32_t position, const Name* parent, int depth) {
    const Value& value = values_[position];
    if (depth == kMaxDepth) fail(value, "expected at most ", kMaxDepth, " dicts and lists in each other, got more");
    const bool is_dict = value.kind == Kind::dict;
    const std::vector<std::uint32_t>& items = value.kind == Kind::call ? elements(value) : value.items;
    for (std::size_t i = 0; i < items.size(); i += is_dict ? 2 : 1) {
      if (++visited_ > pickle::kMaxValues) fail(value, "expected at most ", pickle::kMaxValues, " values, got more");
      if (!is_dict) {
        add(items[i], {.parent = parent, .index = i, .has_key = false}, depth + 1);
        continue;
      }
      const Value& key = values_[items[i]];
      if (key.kind == Kind::text)
        add(items[i + 1], {.parent = parent, .key = key.text}, depth + 1);
      else if (key.kind == Kind::integer)  // optimizers use integers as keys of their states
        add(items[i + 1], {.parent = parent, .key = std::to_string(key.integer)}, depth + 1);
      else
        leave_out(key, {.parent = parent, .key = "?"}, text("a value whose key is ", described(key)));
    }
  }

  void count(const Value& value, std::size_t bytes) {
    name_bytes_ += bytes;
    if (name_bytes_ > max_name_bytes_) fail(value, "expected names of at most ", max_name_bytes_, " bytes, got more");
  }
  std::string counted(const Value& value, const Name& name) {
    count(value, name.size());
    return name.full();
  }
  void leave_out(const Value& value, const Name& name, std::string what) {
    if (state_.skipped.size() == kMaxSkipped)
      fail(value, "expected at most ", kMaxSkipped, " values that are no tensors, got more");
    state_.skipped.add(counted(value, name), std::move(what));
  }
  void add_text(const Value& value, const Name& name) {
    if (state_.texts.size() == safetensors::kMaxTexts)
      fail(value, "expected at most ", safetensors::kMaxTexts, " texts, got more");
    std::string full = counted(value, name);
    if (!state_.texts.emplace(full, value.text).second)
      fail(value, "expected each name once, got ", shown(full), " again");
    count(value, value.text.size());
  }
  template <class T>
  void add_entry(const Value& value, const Name& name, T entry) {
    if (state_.entries.size() == safetensors::kMaxTensors)
      fail(value, "expected at most ", safetensors::kMaxTensors, " tensors, got more");
    std::string full = counted(value, name);
    if (!names_.insert(full).second) fail(value, "expected each name once, got ", shown(full), " again");
    state_.entries.push_back({std::move(full), std::move(entry)});
  }

  const std::vector<std::uint32_t>& arguments_of(const Value& call) const { return values_[call.items[0]].items; }
  // Returns the elements of a tuple, a list, or a torch.Size that is made of one of them.
  const std::vector<std::uint32_t>& elements(const Value& value) const {
    if (value.kind == Kind::tuple || value.kind == Kind::list) return value.items;
    if (value.kind == Kind::call && value.integer == kSize && arguments_of(value).size() == 1)
      if (const Value& inside = values_[arguments_of(value)[0]];
          inside.kind == Kind::tuple || inside.kind == Kind::list)
        return inside.items;
    fail(value, "expected a tuple, got ", described(value));
  }
  std::int64_t natural(std::uint32_t position, const char* what) const {
    const Value& value = values_[position];
    if (value.kind != Kind::integer || value.integer < 0)
      fail(value, "expected ", what, " >= 0, got ",
           value.kind == Kind::integer ? std::to_string(value.integer) : described(value));
    return value.integer;
  }
  Shape shape(std::uint32_t position, const char* what) const {
    const auto& items = elements(values_[position]);
    if (items.size() > std::size_t(Shape::kMaxRank))
      fail(values_[position], "expected at most ", Shape::kMaxRank, " dimensions, got ", items.size());
    Shape sizes;
    for (const std::uint32_t item : items) sizes.push_back(natural(item, what));
    return sizes;
  }

  // Reads a call: _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks[, metadata]);
  // or _rebuild_parameter(tensor, requires_grad, hooks).
  TensorEntry tensor(const Value& value, int depth) {
    if (value.kind != Kind::call) fail(value, "expected a tensor, got ", described(value));
    const auto& arguments = arguments_of(value);
    if (value.integer == kParameter && !arguments.empty() && depth < kMaxDepth)
      return tensor(values_[arguments[0]], depth + 1);
    if (value.integer != kTensor || arguments.size() < 6 || arguments.size() > 7)
      fail(value, "expected a tensor, got ", described(value), " with ", arguments.size(), " arguments");
    if (arguments.size() == 7)
      if (const Value& extra = values_[arguments[6]]; extra.kind != Kind::none && !extra.items.empty())
        fail(extra, "expected a tensor without attributes such as neg, got one with attributes");
    TensorEntry entry = {.storage = storage(values_[arguments[0]]),
                         .offset = natural(arguments[1], "an offset"),
                         .sizes = shape(arguments[2], "sizes"),
                         .strides = shape(arguments[3], "strides")};
    if (entry.strides.rank() != entry.sizes.rank())
      fail(value, "expected a stride for each size, got ", entry.strides, " for ", entry.sizes);
    check_within(value, entry);
    return entry;
  }

  // Checks that the tensor lies within its storage. A tensor without elements may have any offset in the file; it gets
  // offset 0.
  void check_within(const Value& value, TensorEntry& entry) const {
    std::int64_t elements = 1, last = entry.offset;
    bool fits = true;
    const bool is_empty = std::ranges::find(entry.sizes, 0) != entry.sizes.end();
    for (int dim = 0; dim < entry.sizes.rank(); ++dim) {
      const std::int64_t size = entry.sizes[dim];
      std::int64_t reach = 0;
      fits = fits && (size == 0 || !__builtin_mul_overflow(elements, size, &elements));
      if (!is_empty)
        fits = fits && !__builtin_mul_overflow(size - 1, entry.strides[dim], &reach) &&
               !__builtin_add_overflow(last, reach, &last);
    }
    const std::uint64_t available = state_.storages[entry.storage].elements;
    if (!fits || elements > std::numeric_limits<std::int64_t>::max() / 8 ||
        (!is_empty && std::uint64_t(last) >= available))
      fail(value, "expected a tensor within the ", available, " elements of its storage, got sizes ", entry.sizes,
           ", strides ", entry.strides, " and offset ", entry.offset);
    if (!is_empty) return;
    entry.offset = 0;
    entry.strides = contiguous_strides(entry.sizes);
  }

  // Reads the id of a storage: ("storage", torch.FloatStorage, key, device, elements).
  std::size_t storage(const Value& value) {
    if (value.kind != Kind::persistent) fail(value, "expected a storage, got ", described(value));
    const auto& id = elements(values_[value.items[0]]);
    if (id.size() != 5 || values_[id[0]].kind != Kind::text || values_[id[0]].text != "storage" ||
        values_[id[1]].kind != Kind::global || values_[id[2]].kind != Kind::text)
      fail(value, "expected a storage with its type and key, got another persistent value");
    if (values_[id[1]].integer < kFirstStorage)
      fail(value,
           "expected a tensor of bool, uint8, int32, int64, float16, bfloat16, float32 or float64, got one in a ",
           shown(values_[id[1]].text), ": convert it before it is saved");
    const DType dtype = kStorageDTypes[values_[id[1]].integer - kFirstStorage];
    const auto elements = std::uint64_t(natural(id[4], "elements of a storage"));
    const std::string key(values_[id[2]].text);
    const auto [known, is_new] = positions_.emplace(key, state_.storages.size());
    if (is_new) {
      count(value, key.size());
      state_.storages.push_back({key, dtype, elements, begin_ + value.at});
    }
    const StorageEntry& entry = state_.storages[known->second];
    if (entry.dtype != dtype || entry.elements != elements)
      fail(value, "expected ", entry.elements, " elements of ", entry.dtype, " in storage ", shown(key),
           " as before, got ", elements, " of ", dtype);
    return known->second;
  }

  const std::string& file_;
  const std::deque<Value>& values_;
  std::uint64_t begin_;
  std::size_t max_name_bytes_;
  State state_;
  std::map<std::string, std::size_t> positions_;  // of storages, by key
  std::set<std::string> names_;
  std::size_t visited_ = 0, name_bytes_ = 0;
};

}  // namespace

State parse_state(const std::string& file, std::string_view bytes, std::uint64_t begin) {
  const pickle::Pickle parsed = pickle::parse(file, bytes, begin, kAllowed);
  return Reader(file, parsed, bytes.size(), begin).read(parsed.root);
}

}  // namespace lockstep::torch_file
