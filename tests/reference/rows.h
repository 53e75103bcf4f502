// The table from PyTorch's name of an op to a call of this library. To add an op, add its row to one of the files.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reference/data.h"

namespace lockstep::reference {

/// The results of an op: one tensor or several.
struct Outputs : std::vector<Tensor> {
  Outputs(const Tensor& only) : vector{only} {}
  Outputs(std::vector<Tensor> several) : vector(std::move(several)) {}
  Outputs(const std::pair<Tensor, Tensor>& both) : vector{both.first, both.second} {}
};

using Row = std::function<Outputs(const Call&)>;
using Table = std::map<std::string, Row>;

void add_attention_rows(Table& table);
void add_conv_rows(Table& table);
void add_elementwise_rows(Table& table);  ///< Arithmetic, activations, losses.
void add_recurrent_rows(Table& table);
void add_structure_rows(Table& table);   ///< Reductions, products, shapes, indexing and the rest.
void add_window_rows(Table& table);      ///< Pooling, interpolation.
void add_functional_rows(Table& table);  ///< More activations and losses, and operations made of others.

inline Table all_rows() {
  Table table;
  add_attention_rows(table);
  add_conv_rows(table);
  add_elementwise_rows(table);
  add_recurrent_rows(table);
  add_functional_rows(table);
  add_structure_rows(table);
  add_window_rows(table);
  return table;
}

}  // namespace lockstep::reference
