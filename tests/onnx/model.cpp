#include "onnx/model.h"

#include <lockstep/tensor/creation.h>

#include <bit>
#include <fstream>
#include <iterator>

#include "onnx/protobuf.h"

namespace lockstep::onnx {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Reads a repeated number: packed, or one element at a time.
void append_varints(const Field& field, std::vector<std::int64_t>& to) {
  if (field.bytes.empty()) return to.push_back(std::int64_t(field.number));
  for (Fields packed(field.bytes); !packed.empty();) to.push_back(std::int64_t(packed.varint()));
}
template <class T>
void append_fixed(const Field& field, std::vector<double>& to) {
  if (field.bytes.empty()) {
    const std::uint64_t bits = field.number;
    T value;
    std::memcpy(&value, &bits, sizeof value);
    to.push_back(value);
  }
  for (std::size_t at = 0; at + sizeof(T) <= field.bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, field.bytes.data() + at, sizeof value);
    to.push_back(value);
  }
}

Tensor tensor_of(std::string_view message) {
  std::vector<std::int64_t> sizes, integers;
  std::vector<double> numbers;
  std::int64_t type = 0;
  std::string_view raw;
  Field field;
  for (Fields fields(message); fields.next(field);) switch (field.id) {
      case 1: append_varints(field, sizes); break;
      case 2: type = std::int64_t(field.number); break;
      case 4: append_fixed<float>(field, numbers); break;
      case 5:
      case 7:
      case 11: append_varints(field, integers); break;
      case 9: raw = field.bytes; break;
      case 10: append_fixed<double>(field, numbers); break;
      default: break;
    }
  const DType dtype = dtype_of(type);
  Shape shape;
  for (const std::int64_t size : sizes) shape.push_back(size);
  const auto count = std::size_t(shape.elements());
  if (!raw.empty() || count == 0) return from_host(raw.data(), count, dtype, shape);
  if (!numbers.empty()) return from_host(numbers.data(), count, kFloat64, shape, {.dtype = dtype});
  if (size_of(dtype) == 2) {  // the bits, stored as int32
    std::vector<std::uint16_t> bits(integers.begin(), integers.end());
    return from_host(bits.data(), count, dtype, shape);
  }
  return from_host(integers.data(), count, kInt64, shape, {.dtype = dtype});
}

Attribute attribute_of(std::string_view message, std::string& name) {
  Attribute attribute;
  Field field;
  for (Fields fields(message); fields.next(field);) switch (field.id) {
      case 1: name = field.bytes; break;
      case 2: attribute.number = std::bit_cast<float>(std::uint32_t(field.number)); break;
      case 3: attribute.integer = std::int64_t(field.number); break;
      case 4: attribute.text = field.bytes; break;
      case 5: attribute.tensor = tensor_of(field.bytes); break;
      case 6: throw NotApplicable("control flow");
      case 7: append_fixed<float>(field, attribute.numbers); break;
      case 8: append_varints(field, attribute.integers); break;
      default: break;
    }
  return attribute;
}

Node node_of(std::string_view message) {
  Node node;
  Field field;
  for (Fields fields(message); fields.next(field);) switch (field.id) {
      case 1: node.inputs.emplace_back(field.bytes); break;
      case 2: node.outputs.emplace_back(field.bytes); break;
      case 4: node.op = field.bytes; break;
      case 5: {
        std::string name;
        Attribute attribute = attribute_of(field.bytes, name);
        node.attributes.emplace(std::move(name), std::move(attribute));
        break;
      }
      case 7:
        if (!field.bytes.empty() && field.bytes != "ai.onnx")
          throw NotApplicable("operators of the domain " + std::string(field.bytes));
        break;
      default: break;
    }
  return node;
}

// The name in field `id` of a NamedObject (a value, or a tensor with a name).
std::string name_of(std::string_view message, int id) {
  Field field;
  for (Fields fields(message); fields.next(field);)
    if (field.id == id) return std::string(field.bytes);
  return {};
}

// The name of a graph's input or output, which must be a tensor.
std::string value_name(std::string_view message) {
  Field field, kind;
  for (Fields fields(message); fields.next(field);)
    if (field.id == 2)
      for (Fields type(field.bytes); type.next(kind);)
        if (kind.id != 1 && kind.id != 6) throw NotApplicable("a value that is no tensor");
  return name_of(message, 1);
}

}  // namespace

DType dtype_of(std::int64_t type) {
  switch (type) {
    case 1: return kFloat32;
    case 2: return kUInt8;
    case 6: return kInt32;
    case 7: return kInt64;
    case 9: return kBool;
    case 10: return kFloat16;
    case 11: return kFloat64;
    case 16: return kBFloat16;
    case 3: throw NotApplicable("dtype int8");
    case 4: throw NotApplicable("dtype uint16");
    case 5: throw NotApplicable("dtype int16");
    case 8: throw NotApplicable("dtype string");
    case 12: throw NotApplicable("dtype uint32");
    case 13: throw NotApplicable("dtype uint64");
    case 14:
    case 15: throw NotApplicable("complex dtypes");
    default: throw NotApplicable("a value that is no tensor");
  }
}

Model read_model(const std::string& path) {
  const std::string file = read_file(path);
  Model model;
  Field field;
  for (Fields of_model(file); of_model.next(field);) {
    if (field.id != 7) continue;
    Field part;
    for (Fields of_graph(field.bytes); of_graph.next(part);) switch (part.id) {
        case 1: model.nodes.push_back(node_of(part.bytes)); break;
        case 5: model.initializers.emplace(name_of(part.bytes, 8), tensor_of(part.bytes)); break;
        case 11: model.inputs.push_back(value_name(part.bytes)); break;
        case 12: model.outputs.push_back(value_name(part.bytes)); break;
        default: break;
      }
  }
  return model;
}

Tensor read_tensor(const std::string& path) { return tensor_of(read_file(path)); }

}  // namespace lockstep::onnx
