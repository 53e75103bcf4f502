#include <lockstep/runtime/memory.h>

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

#include "core/text.h"
#include "runtime/registry.h"

namespace lockstep {

namespace {

using Cells = std::vector<std::string>;

std::string mebibytes(std::size_t bytes) {
  return text(std::fixed, std::setprecision(1), double(bytes) / 0x1p20, " MiB");
}

Cells row_of(Device device) {
  const DeviceProperties about = properties(device);
  const MemoryStats stats = memory_stats(device);
  return {device.name(), about.name, mebibytes(stats.in_use), mebibytes(stats.peak_in_use),
          mebibytes(about.memory_bytes)};
}

void print_rule(std::ostream& out, const std::vector<std::size_t>& widths, char line) {
  for (const std::size_t width : widths) out << '+' << std::string(width + 2, line);
  out << "+\n";
}

// Prints a row of the table: names aligned left, sizes aligned right.
void print_row(std::ostream& out, const std::vector<std::size_t>& widths, const Cells& row) {
  constexpr std::size_t kNames = 2;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string padding(widths[i] - row[i].size(), ' ');
    out << "| " << (i < kNames ? row[i] + padding : padding + row[i]) << ' ';
  }
  out << "|\n";
}

}  // namespace

MemoryStats memory_stats(Device device) { return device_state(device).allocator.stats(); }

void reset_peak_memory(Device device) { device_state(device).allocator.reset_peaks(); }

void empty_cache(Device device) { device_state(device).allocator.empty_cache(); }

void cuda::empty_cache() {
  for (const Device& gpu : visible_gpus()) lockstep::empty_cache(gpu);
}

void print_devices(std::ostream& out) {
  std::vector<Cells> rows = {{"Device", "Name", "In use", "Peak", "Total"}, row_of(Device())};
  for (const Device& device : visible_gpus()) rows.push_back(row_of(device));

  std::vector<std::size_t> widths(rows.front().size());
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  print_rule(out, widths, '-');
  print_row(out, widths, rows.front());
  print_rule(out, widths, '=');
  for (std::size_t i = 1; i < rows.size(); ++i) print_row(out, widths, rows[i]);
  print_rule(out, widths, '-');
}

}  // namespace lockstep
