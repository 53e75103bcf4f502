// The table from ONNX's operators to calls of this library. To add an op, add its row to one of the files.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace lockstep::onnx {

using Tensors = std::vector<Tensor>;
/// Omitted inputs are undefined. Throws NotApplicable.
using Row = std::function<Tensors(const Node&, const Tensors&)>;
using Table = std::map<std::string, Row>;

void add_conv_rows(Table& table);         ///< Convolutions.
void add_elementwise_rows(Table& table);  ///< Arithmetic, comparison, activations.
void add_recurrent_rows(Table& table);
void add_structure_rows(Table& table);   ///< Reductions, products, shapes, indexing.
void add_layer_rows(Table& table);       ///< Normalization, losses.
void add_functional_rows(Table& table);  ///< More activations, and operations made of others.
void add_window_rows(Table& table);      ///< Pooling, interpolation, padding.

/// The input at `place`; undefined if it is omitted.
inline Tensor input(const Tensors& x, std::size_t place) { return place < x.size() ? x[place] : Tensor(); }

/// Whole numbers that a case gives as a tensor: from input `place`, else from the attribute, else none.
inline std::vector<std::int64_t> whole_numbers(const Node& node, const Tensors& x, std::size_t place,
                                               const std::string& attribute) {
  if (const Tensor given = input(x, place); given.defined()) return given.cpu().to(kInt64).to_vector<std::int64_t>();
  return node.integers(attribute);
}

inline Shape shape_of(const std::vector<std::int64_t>& values) {
  Shape shape;
  for (const std::int64_t value : values) shape.push_back(value);
  return shape;
}

}  // namespace lockstep::onnx
