// libFuzzer on the CSV reader: any bytes are rejected by FormatError, or read as a table that is the same after it is
// written and read again. The first byte selects the options. The sanitizers check the rest.
#include <cmath>
#include <string>
#include <string_view>

#include <lockstep/core/error.h>

#include "data/readers.h"
#include "fuzz/limits.h"
#include "support/memory_source.h"

using namespace lockstep;

namespace {

std::string written(const data::Csv& table) {
  std::string bytes;
  const auto end = [&] { bytes.back() = '\n'; };
  for (const std::string& name : table.columns) {
    bytes += '"';
    for (const char c : name) bytes.append(c == '"' ? 2 : 1, c);
    bytes += "\",";
  }
  if (!table.columns.empty()) end();
  const std::vector<double> values = table.values.to_vector<double>();
  const auto columns = std::size_t(table.values.size(1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%.17g,", values[i]);
    bytes += number;
    if ((i + 1) % columns == 0) end();
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view file(reinterpret_cast<const char*>(data + 1), size - 1);
  const data::CsvOptions options = {.separator = data[0] & 1 ? ';' : ',', .header = !(data[0] & 2), .dtype = kFloat64};
  data::Csv table;
  try {
    const fuzz::Limits limits(size, {.bytes = 4 << 20, .bytes_per_byte = 256});
    lockstep::testing::MemorySource source(file);
    table = data::read_csv(source, options);
  } catch (const FormatError& error) {
    fuzz::require(error.offset <= size, "an offset within the file");
    return 0;
  }
  const std::string again = written(table);
  lockstep::testing::MemorySource source(again);
  const data::Csv same = data::read_csv(source, {.header = options.header, .dtype = kFloat64});
  fuzz::require(same.columns == table.columns, "the same names from what was written");
  const std::vector<double> expected = table.values.to_vector<double>(), got = same.values.to_vector<double>();
  fuzz::require(expected.size() == got.size(), "as many numbers from what was written");
  for (std::size_t i = 0; i < got.size(); ++i)
    fuzz::require(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])),
                  "the same numbers from what was written");
  return 0;
}
