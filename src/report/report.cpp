#include <lockstep/report/report.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/io/atomic_file.h>
#include <lockstep/runtime/memory.h>

#include "core/digits.h"
#include "core/json_string.h"
#include "core/text.h"
#include "report/curves.h"
#include "report/markup.h"
#include "report/report_page.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMaxNameShown = 200;  // longest name shown, in bytes
constexpr std::size_t kMaxOperations = 12;  // rows of the table of the slowest operations

std::string shortened(std::string_view name) {
  if (name.size() <= kMaxNameShown) return std::string(name);
  std::size_t end = kMaxNameShown;
  while (end > 0 && (name[end] & 0xC0) == 0x80) --end;  // do not cut inside a UTF-8 character
  return std::string(name.substr(0, end)) + "\u2026";
}

std::string in_markup(std::string_view plain) { return escaped(shortened(plain)); }

std::string digits_for_people(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e9) return std::to_string(std::int64_t(value));
  return digits_of(value, std::chars_format::general, 5);
}

// JSON has no NaN or infinity, which become null.
std::string json_number(double value) {
  return std::isfinite(value) ? digits_of(value, std::chars_format::general, 7) : "null";
}

std::string duration_of(double seconds) {
  if (seconds < 60) return digits_for_people(seconds) + " s";
  const auto whole = std::int64_t(std::llround(seconds));
  if (whole < 3600) return text(whole / 60, " min ", whole % 60, " s");
  return text(whole / 3600, " h ", whole % 3600 / 60, " min");
}

std::string bytes_for_people(std::size_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = double(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return text(digits_of(size, std::chars_format::general, 4), ' ', kUnits[unit]);
}

// Limits that keep the file small.
struct Limits {
  std::size_t points = 1500;  // per curve
  std::size_t lines = 100;
  std::size_t operations = 6000;
  std::size_t rows = 300;  // per table
};

// Keeps the lowest and the highest point of each interval, and both ends.
PlotLine thinned(const PlotLine& line, std::size_t most) {
  if (line.x.size() <= most) return line;
  PlotLine out = line;
  out.x.clear(), out.y.clear();
  const std::size_t stretches = std::max<std::size_t>(1, most / 2);
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = s * line.x.size() / stretches, end = (s + 1) * line.x.size() / stretches;
    std::size_t least = begin, greatest = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(line.y[i] >= line.y[least])) least = i;
      if (!(line.y[i] <= line.y[greatest])) greatest = i;
    }
    for (const std::size_t i : {std::min(least, greatest), std::max(least, greatest)}) {
      out.x.push_back(line.x[i]);
      out.y.push_back(line.y[i]);
    }
  }
  return out;
}

class Page {
 public:
  Page(const History& history, const ReportOptions& options, const Limits& limits)
      : history_(history), options_(options), limits_(limits), curves_(curves_of(history, false)) {
    add_learning_rate();
    for (const TraceEvent& event : options.trace) trace_.push_back(&event);
    std::ranges::sort(trace_, {}, [](const TraceEvent* event) { return event->start_us; });
  }

  std::string write() {
    out_ =
        text("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; ",
             "script-src 'unsafe-inline'\">\n<title>", in_markup(options_.title), "</title>\n<style>", kReportStyle,
             "</style>\n</head>\n<body>\n<main>\n<h1>", in_markup(options_.title), "</h1>\n");
    write_tiles();
    write_curves();
    out_ += "<div class=\"columns\">\n";
    out_ += "<div>\n";
    write_metrics();
    write_devices();
    write_notes();
    out_ += "</div>\n<div>\n";
    write_settings();
    write_operations();
    out_ += "</div>\n</div>\n";
    write_timeline();
    out_ += text("</main>\n<script type=\"application/json\" id=\"data\">", data(), "</script>\n<script>",
                 kReportScript, "</script>\n</body>\n</html>\n");
    return std::move(out_);
  }

 private:
  bool has(std::string_view column) const {
    return std::ranges::find(history_.columns(), column) != history_.columns().end();
  }
  std::optional<double> last(std::string_view column) const {
    if (!has(column)) return {};
    const History::Column& values = history_.column(column);
    for (std::size_t row = values.size(); row-- > 0;)
      if (values[row]) return values[row];
    return {};
  }

  // The learning rate always gets its own axis.
  void add_learning_rate() {
    if (!has("lr")) return;
    PlotLine line{.name = "lr", .x = {}, .y = {}, .color = 2};
    for (const PlotLine& other : curves_) line.panel = std::max(line.panel, other.panel + 1);
    const History::Column none(history_.rows());
    const History::Column& steps = has("step") ? history_.column("step") : none;
    const History::Column& values = history_.column("lr");
    for (std::size_t row = 0; row < values.size(); ++row)
      if (values[row]) line.x.push_back(steps[row].value_or(NAN)), line.y.push_back(*values[row]);
    curves_.push_back(std::move(line));
  }

  void tile(std::string_view name, std::string_view value) {
    out_ += text("<div class=\"tile\"><b>", in_markup(value), "</b><span>", in_markup(name), "</span></div>\n");
  }
  void write_tiles() {
    out_ += "<div class=\"tiles\">\n";
    const auto step = last("step"), seconds = last("seconds");
    if (const auto epoch = last("epoch")) tile("epochs", digits_for_people(*epoch));
    if (step) tile("steps", digits_for_people(*step));
    if (seconds) tile("time", duration_of(*seconds));
    if (step && seconds && *seconds > 0)
      tile("steps per second", digits_for_people(std::round(*step / *seconds * 100) / 100));
    std::size_t shown = 0;
    for (const std::string& name : history_.columns())
      if (name.starts_with("validation_") && ++shown <= 3)
        if (const auto value = last(name)) tile(name, digits_for_people(*value));
    out_ += "</div>\n";
  }

  void write_curves() {
    out_ += "<section id=\"curves\">\n<h2>Curves</h2>\n";
    if (history_.rows() == 0) out_ += "<p class=\"soft\">The history has no rows.</p>\n";
    if (curves_.size() > limits_.lines)
      out_ += text("<p class=\"soft\">The first ", limits_.lines, " of ", curves_.size(), " series are drawn.</p>\n");
    if (std::ranges::any_of(curves_, [&](const PlotLine& line) { return line.x.size() > limits_.points; }))
      out_ += "<p class=\"soft\">Long curves show only the lowest and the highest value of each interval.</p>\n";
    out_ += "<noscript><p class=\"soft\">The curves are drawn by a script in this file.</p></noscript>\n</section>\n";
  }

  void begin_table(std::string_view title, std::initializer_list<const char*> heads, const char* style = "") {
    out_ += text("<section>\n<h2>", title, "</h2>\n<div class=\"scroll\"><table", style, ">\n");
    if (heads.size() == 0) return;
    out_ += "<tr>";
    for (const char* head : heads) out_ += text("<th>", head, "</th>");
    out_ += "</tr>\n";
  }
  void row(std::initializer_list<std::string> cells) {
    out_ += "<tr>";
    for (const std::string& cell : cells) out_ += text("<td>", in_markup(cell), "</td>");
    out_ += "</tr>\n";
  }
  void end_table(std::size_t rows) {
    out_ += "</table></div>\n";
    if (rows > limits_.rows) out_ += text("<p class=\"soft\">The first ", limits_.rows, " of ", rows, " rows.</p>\n");
    out_ += "</section>\n";
  }

  void write_metrics() {
    if (curves_.empty()) return;
    begin_table("Values", {"series", "last", "least", "at step", "greatest", "at step"}, " class=\"values\"");
    std::size_t rows = 0;
    for (const PlotLine& line : curves_) {
      if (line.y.empty() || ++rows > limits_.rows) continue;
      std::optional<std::size_t> least, greatest;
      for (std::size_t i = 0; i < line.y.size(); ++i) {
        if (std::isnan(line.y[i])) continue;
        if (!least || line.y[i] < line.y[*least]) least = i;
        if (!greatest || line.y[i] > line.y[*greatest]) greatest = i;
      }
      if (!least) {
        row({line.name, "nan", "", "", "", ""});
        continue;
      }
      row({line.name, digits_for_people(line.y.back()), digits_for_people(line.y[*least]),
           digits_for_people(line.x[*least]), digits_for_people(line.y[*greatest]),
           digits_for_people(line.x[*greatest])});
    }
    end_table(rows);
  }

  void write_devices() {
    const std::vector<Device> devices = options_.devices.empty() ? try_all_gpus() : options_.devices;
    const std::string planned = options_.planned_bytes ? bytes_for_people(options_.planned_bytes) : "";
    begin_table("Devices", {"device", "model", "in use", "peak", "planned", "reserved", "memory"},
                " class=\"devices\"");
    for (const Device& device : devices) {
      const MemoryStats stats = memory_stats(device);
      const DeviceProperties known = properties(device);
      row({device.name(), known.name, bytes_for_people(stats.in_use), bytes_for_people(stats.peak_in_use), planned,
           bytes_for_people(stats.reserved), bytes_for_people(known.memory_bytes)});
    }
    end_table(0);
  }

  void write_settings() {
    if (options_.settings.empty()) return;
    begin_table("Settings", {}, " class=\"pairs\"");
    for (std::size_t i = 0; i < std::min(options_.settings.size(), limits_.rows); ++i)
      row({options_.settings[i].name, options_.settings[i].value});
    end_table(options_.settings.size());
  }

  void write_notes() {
    if (history_.notes().empty()) return;
    out_ += "<section>\n<h2>Notes</h2>\n<ul>\n";
    for (std::size_t i = 0; i < std::min(history_.notes().size(), limits_.rows); ++i)
      out_ += text("<li>", in_markup(history_.notes()[i]), "</li>\n");
    out_ += "</ul>\n</section>\n";
  }

  struct Total {
    std::size_t count = 0, bytes = 0;
    double us = 0, flops = 0;
  };

  void write_timeline() {
    if (trace_.empty()) return;
    out_ += "<section id=\"timeline\">\n<h2>Trace</h2>\n";
    if (trace_.size() > limits_.operations)
      out_ += text("<p class=\"soft\">The last ", limits_.operations, " of ", trace_.size(), " operations.</p>\n");
    out_ += "<div class=\"scroll\"></div>\n</section>\n";
  }

  // The table of operations by total time.
  void write_operations() {
    if (trace_.empty()) return;
    std::map<std::string, Total> totals;
    double all_us = 0;
    for (const TraceEvent* event : trace_) {
      Total& total = totals[event->name];
      const double us = event->end_us - event->start_us;
      ++total.count, total.us += us, total.flops += event->flops, total.bytes += event->bytes;
      all_us += us;
    }
    std::vector<std::pair<std::string, Total>> sorted(totals.begin(), totals.end());
    std::ranges::sort(sorted, std::greater(), [](const auto& pair) { return pair.second.us; });
    if (sorted.size() > kMaxOperations) sorted.resize(kMaxOperations);
    begin_table("Operations by time", {"operation", "calls", "ms", "share", "GFLOP/s", "GB/s"});
    for (const auto& [name, total] : sorted) {
      const auto rate = [&, us = total.us](double amount) {
        return amount > 0 && us > 0 ? digits_for_people(std::round(amount / us / 10) / 100) : std::string();
      };
      row({name, text(total.count), digits_for_people(std::round(total.us) / 1e3),
           text(std::llround(100 * total.us / std::max(all_us, 1e-9)), '%'), rate(total.flops),
           rate(double(total.bytes))});
    }
    end_table(0);
  }

  std::string data() const {
    std::string json = "{\"series\":[";
    const char* separator = "";
    for (std::size_t i = 0; i < std::min(curves_.size(), limits_.lines); ++i) {
      const PlotLine line = thinned(curves_[i], limits_.points);
      json += text(std::exchange(separator, ","), "\n{\"name\":", json_string(shortened(line.name)),
                   ",\"color\":", line.color, ",\"panel\":", line.panel, ",\"dashed\":", line.dashed ? "true" : "false",
                   ",\"x\":[", numbers(line.x), "],\"y\":[", numbers(line.y), "]}");
    }
    return json + "\n],\"trace\":" + trace_data() + "}";
  }

  static std::string numbers(const std::vector<double>& values) {
    std::string list;
    for (const double value : values) {
      if (!list.empty()) list += ',';
      list += json_number(value);
    }
    return list;
  }

  static int kind_of(const TraceEvent& event) {
    switch (event.kind) {
      case TraceKind::kernel: return 0;
      case TraceKind::collective: return 2;
      case TraceKind::fill: return 3;
      default: return 1;
    }
  }

  // Times are relative to the first operation drawn, which makes the numbers shorter.
  std::string trace_data() const {
    if (trace_.empty()) return "null";
    const std::size_t first = trace_.size() - std::min(trace_.size(), limits_.operations);
    std::map<std::pair<Device, int>, int> lanes;
    std::map<std::string, int> names;
    double end = trace_[first]->end_us;
    for (std::size_t i = first; i < trace_.size(); ++i) {
      lanes[{trace_[i]->device, trace_[i]->stream}];
      names[shortened(trace_[i]->name)];
      end = std::max(end, trace_[i]->end_us);
    }
    std::string lane_names, all_names, events;
    int number = 0;
    for (auto& [lane, place] : lanes) {
      place = number++;
      const char* const what = lane.first.is_cpu() ? " thread " : " stream ";
      lane_names += text(lane_names.empty() ? "" : ",", '"', lane.first, what, lane.second, '"');
    }
    number = 0;
    for (auto& [name, place] : names) {
      place = number++;
      all_names += (all_names.empty() ? "" : ",") + json_string(name);
    }
    const double begin = trace_[first]->start_us;
    for (std::size_t i = first; i < trace_.size(); ++i) {
      const TraceEvent& event = *trace_[i];
      const auto micros = [](double us) { return json_number(std::round(us * 10) / 10); };
      events += text(i == first ? "" : ",", '[', lanes.at({event.device, event.stream}), ',',
                     micros(event.start_us - begin), ',', micros(event.end_us - event.start_us), ',',
                     names.at(shortened(event.name)), ',', kind_of(event), ']');
    }
    return text("{\"begin\":0,\"end\":", json_number(end - begin), ",\"lanes\":[", lane_names, "],\"names\":[",
                all_names, "],\"events\":[", events, "]}");
  }

  const History& history_;
  const ReportOptions& options_;
  const Limits limits_;
  std::vector<PlotLine> curves_;
  std::vector<const TraceEvent*> trace_;  // in order of their start times
  std::string out_;
};

}  // namespace

std::string html_report(const History& history, const ReportOptions& options) {
  Limits limits;
  std::string page = Page(history, options, limits).write();
  while (page.size() >= kMaxReportBytes && limits.points > 2) {
    limits.points = std::max<std::size_t>(2, limits.points / 2);
    limits.operations = limits.operations / 2 + 1;
    limits.rows = std::max<std::size_t>(10, limits.rows / 2);
    limits.lines = std::max<std::size_t>(10, limits.lines * 3 / 4);
    page = Page(history, options, limits).write();
  }
  return page;
}

void write_report(const std::filesystem::path& path, const History& history, const ReportOptions& options) {
  const std::string page = html_report(history, options);
  AtomicFile file(path);
  file.write(page.data(), page.size());
  file.commit();
}

}  // namespace lockstep::train
