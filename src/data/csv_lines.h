// Splits a CSV file into lines and fields (RFC 4180). Reads the file in blocks; memory holds one line. One thread at a
// time.
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
  // Parsed lines take more memory than their text; these limits bound it.
  static constexpr std::size_t kMaxLineBytes = 64 << 20, kMaxFields = 1 << 20;

  CsvLines(ByteSource& source, char separator) : source_(source), separator_(separator) {}

  /// Reads the next line that is not empty; returns false at the end of the file. Fields are valid until the next call.
  /// A quoted field may contain line breaks: LF, CR LF or CR. Throws FormatError.
  bool next(std::vector<std::string_view>& fields);
  /// Throws FormatError naming the line last read and the column, which is counted from 0.
  template <class... Reason>
  [[noreturn]] void fail(std::size_t column, const Reason&... reason) const {
    source_.fail(base_ + begin_, "line ", line_, ", column ", column + 1, ": ", reason...);
  }

 private:
  // Returns the next byte, or one of the two constants below.
  int peek();
  bool refill();
  void drop_what_was_read();
  // Reads a field. Returns true if it was the last of its line.
  bool field();
  void plain();
  void quoted();
  bool skip_line_break();

  ByteSource& source_;
  char separator_;
  std::string buffer_;  // the file's bytes from base_ on
  std::uint64_t base_ = 0;
  std::size_t at_ = 0;                                       // position in the buffer
  std::size_t begin_ = 0;                                    // position of the line's first byte
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // position and length of each field
  bool has_quotes_ = false;                                  // a line with quotes does not count as empty
  std::uint64_t line_ = 0, next_line_ = 1;
};

}  // namespace lockstep::data
