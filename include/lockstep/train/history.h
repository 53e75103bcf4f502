// History: what training reported, as a table. Columns have names; a value may be missing. A value; one thread at a
// time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tensor/state_dict.h>
#include <lockstep/train/plot.h>

namespace lockstep::train {

/// A table of what training reported.
class LOCKSTEP_API History {
 public:
  /// What is known of one column.
  struct Value {
    std::string column;
    double value = 0;
  };
  using Column = std::vector<std::optional<double>>;  ///< A value for each row, where there is one.

  std::size_t rows() const noexcept { return rows_; }  ///< Number of rows.
  /// In the order of their first values.
  const std::vector<std::string>& columns() const noexcept { return names_; }
  /// One entry for each row. Throws InvalidArgument if there is no such column.
  const Column& column(std::string_view name) const;

  void add_row(std::span<const Value> values);  ///< Columns that are not there yet are added.

  /// What else is to be known of the run, a line each: checkpoints that were damaged, and passed over. State dicts hold
  /// them, CSV does not.
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// A line end in it becomes a blank.
  void add_note(std::string note);

  /// RFC 4180, with a header. Missing values are empty; others are the shortest text that reads back as the same
  /// number, nan and inf among them.
  std::string csv() const;
  /// One line for each column but epoch, step, seconds and lr, by step; those of validation are dashed. What has
  /// another scale than a line above, and every loss, has a panel of its own.
  std::string svg(const PlotOptions& options = {}) const;
  /// Throw IoError; the file appears whole or not at all.
  void write_csv(const std::filesystem::path& path) const;
  void write_svg(const std::filesystem::path& path, const PlotOptions& options = {}) const;  ///< See write_csv().

  /// One tensor for each column: [2, rows], the values and whether they are there. The notes, if any, are bytes.
  StateDict state_dict() const;
  /// Throws InvalidArgument, and changes nothing then, for anything that state_dict() does not give.
  void load_state_dict(const StateDict& state);

 private:
  Column& writable(const std::string& name);

  std::vector<std::string> names_;
  std::vector<Column> columns_;
  std::size_t rows_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::train
