#include <lockstep/report/history.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <utility>

#include <lockstep/io/atomic_file.h>
#include <lockstep/tensor/creation.h>

#include "core/listed.h"
#include "core/text.h"
#include "distributed/same_lines.h"
#include "report/curves.h"

namespace lockstep::train {
namespace {

constexpr std::string_view kLineEnd = "\r\n";  // RFC 4180, section 2

std::string number(double value) {
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value) && !(value == 0 && std::signbit(value));
  return whole ? std::to_string(static_cast<long long>(value)) : exact(value);
}

std::string field(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == name.npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

void write_whole(const std::filesystem::path& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

const History::Column& History::column(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end())
    throw InvalidArgument(
        text("[history] expected an existing column (", listed(names_, std::identity()), "), got ", name));
  return columns_[std::size_t(found - names_.begin())];
}

History::Column& History::writable(const std::string& name) {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return columns_[std::size_t(found - names_.begin())];
  names_.push_back(name);
  return columns_.emplace_back(rows_);
}

void History::add_row(std::span<const Value> values) {
  ++rows_;
  for (Column& column : columns_) column.emplace_back();
  for (const Value& value : values) writable(value.column).back() = value.value;
}

void History::add_note(std::string note) {
  std::ranges::replace(note, '\n', ' ');
  notes_.push_back(std::move(note));
}

std::string History::csv() const {
  std::string out;
  for (std::size_t c = 0; c < names_.size(); ++c) out += (c ? "," : "") + field(names_[c]);
  out += kLineEnd;
  for (std::size_t row = 0; row < rows_; ++row) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c) out += ',';
      if (columns_[c][row]) out += number(*columns_[c][row]);
    }
    out += kLineEnd;
  }
  return out;
}

std::string History::svg(const PlotOptions& options) const {
  return svg_plot(curves_of(*this, options.log_y), options);
}

void History::write_csv(const std::filesystem::path& path) const { write_whole(path, csv()); }
void History::write_svg(const std::filesystem::path& path, const PlotOptions& options) const {
  write_whole(path, svg(options));
}

StateDict History::state_dict() const {
  StateDict state;
  for (std::size_t c = 0; c < names_.size(); ++c) {
    std::vector<double> values;
    for (const auto& value : columns_[c]) values.push_back(value.value_or(0));
    for (const auto& value : columns_[c]) values.push_back(value.has_value());
    state.add(names_[c], from_host(values.data(), values.size(), kFloat64, {2, std::int64_t(rows_)}));
  }
  if (notes_.empty()) return state;
  std::string lines, key = "notes";
  for (const std::string& note : notes_) lines += note + '\n';
  while (state.find(key)) key += '_';  // unlike any column; load_state_dict() knows notes by their dtype
  state.add(key, from_host(lines.data(), lines.size(), kUInt8, {std::int64_t(lines.size())}));
  return state;
}

void History::load_state_dict(const StateDict& state) {
  History loaded;
  if (!state.empty() && state.begin()->second.dim() == 2) loaded.rows_ = std::size_t(state.begin()->second.size(1));
  for (const auto& [name, tensor] : state) {
    if (tensor.dtype() == kUInt8 && tensor.dim() == 1) {
      const auto bytes = tensor.to_vector<std::uint8_t>();
      std::istringstream lines(std::string(bytes.begin(), bytes.end()));
      for (std::string note; std::getline(lines, note);) loaded.add_note(note);
      continue;
    }
    if (tensor.dtype() != kFloat64 || tensor.sizes() != Shape{2, std::int64_t(loaded.rows_)})
      throw InvalidArgument(
          text("[history] expected float64 [2, rows] as ", name, ", got ", tensor.dtype(), ' ', tensor.sizes()));
    const auto values = tensor.to_vector<double>();
    Column& column = loaded.writable(name);
    for (std::size_t row = 0; row < loaded.rows_; ++row)
      if (values[loaded.rows_ + row] != 0) column[row] = values[row];
  }
  *this = std::move(loaded);
}

}  // namespace lockstep::train
