// ONNX's models, as far as the tests need them: nodes with attributes, and tensors (github.com/onnx/onnx, onnx.proto).
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep::onnx {

/// Thrown for a case that needs something Lockstep does not have; the message is the reason.
struct NotApplicable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Attribute {
  double number = 0;
  std::int64_t integer = 0;
  std::string text;
  std::vector<double> numbers;
  std::vector<std::int64_t> integers;
  Tensor tensor;
};

class Node {
 public:
  std::string op;
  std::vector<std::string> inputs, outputs;  ///< Names; empty if omitted.
  std::map<std::string, Attribute> attributes;

  bool has(const std::string& name) const { return attributes.contains(name); }
  double number(const std::string& name, double otherwise) const {
    return has(name) ? attributes.at(name).number : otherwise;
  }
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const {
    return has(name) ? attributes.at(name).integer : otherwise;
  }
  std::string text(const std::string& name, const std::string& otherwise) const {
    return has(name) ? attributes.at(name).text : otherwise;
  }
  std::vector<std::int64_t> integers(const std::string& name, const std::vector<std::int64_t>& otherwise = {}) const {
    return has(name) ? attributes.at(name).integers : otherwise;
  }
};

struct Model {
  std::vector<Node> nodes;
  std::map<std::string, Tensor> initializers;
  std::vector<std::string> inputs, outputs;
};

/// Throw NotApplicable for dtypes and kinds of values that Lockstep does not have.
Model read_model(const std::string& path);
Tensor read_tensor(const std::string& path);
DType dtype_of(std::int64_t onnx_type);

}  // namespace lockstep::onnx
