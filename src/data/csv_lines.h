// A table of text, line by line and field by field (RFC 4180). The file is read in blocks: memory holds a line of it.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/byte_source.h"

namespace lockstep::data {

class CsvLines {
 public:
  // A line takes more memory than its text; these bound by how much.
  static constexpr std::size_t kMaxLineBytes = 64 << 20, kMaxFields = 1 << 20;

  CsvLines(ByteSource& source, char separator) : source_(source), separator_(separator) {}

  /// The next line that is not empty; false at the end of the file. Fields are valid until the next call. A line may be
  /// several lines of the file, where a quoted field has line breaks: LF, CR LF or CR. Throws FormatError.
  bool next(std::vector<std::string_view>& fields);
  /// Throws FormatError naming the line last read and the column, which counts from 0.
  [[noreturn]] void fail(std::size_t column, const std::string& reason) const;

 private:
  // The next byte, or one of the two below.
  int peek();
  bool refill();
  void drop_what_was_read();
  // Whether the field was the last of its line.
  bool field();
  void plain();
  void quoted();
  bool skip_line_break();

  ByteSource& source_;
  char separator_;
  std::string buffer_;  // of the file from byte base_ on
  std::uint64_t base_ = 0;
  std::size_t at_ = 0;                                       // in the buffer, as all that follows
  std::size_t begin_ = 0;                                    // of the line
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // of the fields: begin and length
  bool has_quotes_ = false;                                  // so the line is not empty, whatever its field is
  std::uint64_t line_ = 0, next_line_ = 1;
};

}  // namespace lockstep::data
