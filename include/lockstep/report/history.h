// History: the metrics that training reported, as a table. Columns have names; a value may be missing. A value type;
// one thread at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/report/plot.h>
#include <lockstep/tensor/state_dict.h>

namespace lockstep::train {

/// A table of reported metrics.
class LOCKSTEP_API History {
 public:
  /// One column's value in a row.
  struct Value {
    std::string column;
    double value = 0;
  };
  using Column = std::vector<std::optional<double>>;  ///< One entry per row; nullopt if the row has no value.

  std::size_t rows() const noexcept { return rows_; }  ///< Number of rows.
  /// The columns' names, in the order in which they first appeared.
  const std::vector<std::string>& columns() const noexcept { return names_; }
  /// One entry for each row. Throws InvalidArgument if there is no such column.
  const Column& column(std::string_view name) const;

  void add_row(std::span<const Value> values);  ///< Adds a row, and the columns that are new.

  /// Events of the run, a line each, such as checkpoints that were damaged and skipped. State dicts include them, CSV
  /// does not.
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Adds a note. Line breaks in it become blanks.
  void add_note(std::string note);

  /// The table as CSV (RFC 4180), with a header. Missing values are empty. A value is the shortest text that parses to
  /// the same number, including nan and inf.
  std::string csv() const;
  /// A plot by step, with one line for each column except epoch, step, seconds and lr; lines of validation columns are
  /// dashed. Each loss has its own panel. Another column gets a new panel if its scale differs from that of the panels
  /// above.
  std::string svg(const PlotOptions& options = {}) const;
  /// Throw IoError; the file is written atomically.
  void write_csv(const std::filesystem::path& path) const;
  void write_svg(const std::filesystem::path& path, const PlotOptions& options = {}) const;  ///< See write_csv().

  /// One float64 tensor [2, rows] per column: the values; and 1 for each value that is present, else 0. The notes, if
  /// any, are a uint8 tensor of their text.
  StateDict state_dict() const;
  /// If state_dict() cannot have produced the state dict, throws InvalidArgument and changes nothing.
  void load_state_dict(const StateDict& state);

 private:
  Column& writable(const std::string& name);

  std::vector<std::string> names_;
  std::vector<Column> columns_;
  std::size_t rows_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::train
