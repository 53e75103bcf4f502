// A history's CSV parses to the same numbers, and its plot is well-formed.
#include <lockstep/report/history.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <limits>
#include <locale>

#include <lockstep/io/safetensors.h>
#include <lockstep/tensor/creation.h>

#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace lockstep::train {
namespace {

using testing::contents;
using testing::TemporaryFolder;

using Row = std::vector<History::Value>;
using Fields = std::vector<std::vector<std::string>>;

// Parses CSV by RFC 4180.
Fields parse_csv(const std::string& text) {
  Fields rows(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      rows.back().back() += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && c == ',')
      rows.back().emplace_back();
    else if (!quoted && c == '\r' && i + 1 < text.size() && text[i + 1] == '\n')
      ++i, rows.push_back({""});
    else
      rows.back().back() += c;
  }
  rows.pop_back();  // the last line ends with a line break too
  return rows;
}

// Returns the first malformed part (mismatched tags, unquoted attributes), or an empty string.
std::string xml_fault(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != text.npos; at = text.find('<', at)) {
    const std::size_t end = text.find('>', at);
    if (end == text.npos) return text.substr(at);
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != name) return tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 || tag.find('<') != tag.npos) return tag;
    at = end;
  }
  for (std::size_t at = text.find('&'); at != text.npos; at = text.find('&', at + 1))
    if (text.find(';', at) - at > 5) return text.substr(at, 8);
  return open.empty() ? "" : open.back();
}

History history_of_hard_values() {
  History history;
  history.add_row(Row{{"epoch", 1}, {"step", 50}, {"lr", 0.1}, {"train_loss", 0.1 + 0.2}});
  history.add_row(Row{{"epoch", 1}, {"step", 100}, {"lr", 1e-300}, {"train_loss", NAN}});
  history.add_row(Row{{"epoch", 2}, {"step", 100000}, {"train_loss", 1. / 3}, {"validation_loss", 5e-324}});
  history.add_row(Row{{"step", 1e16}, {"train_loss", INFINITY}, {"a, \"b\" <&> ü", -0.}});
  return history;
}

TEST(History, WritesEveryNumberExactly) {
  const TemporaryFolder folder;
  history_of_hard_values().write_csv(folder / "history.csv");
  const Fields rows = parse_csv(contents(folder / "history.csv"));
  const Fields expected = {
      {"epoch", "step", "lr", "train_loss", "validation_loss", "a, \"b\" <&> ü"},
      {"1", "50", "0.1", "0.30000000000000004", "", ""},
      {"1", "100", "1e-300", "nan", "", ""},
      {"2", "100000", "", "0.3333333333333333", "5e-324", ""},
      {"", "1e+16", "", "inf", "", "-0"},
  };
  EXPECT_EQ(rows, expected);
}

TEST(History, KnowsMissingValues) {
  const History history = history_of_hard_values();
  EXPECT_EQ(history.rows(), 4u);
  EXPECT_EQ(history.column("validation_loss"), (History::Column{{}, {}, 5e-324, {}}));
  const std::string message = testing::thrown<InvalidArgument>([&] { history.column("accuracy"); });
  EXPECT_TRUE(message.starts_with("[history] expected an existing column (") && message.ends_with("), got accuracy"))
      << message;
  EXPECT_NE(message.find("validation_loss"), std::string::npos) << message;
}

TEST(History, GoesOnFromItsState) {
  History copy;
  copy.load_state_dict(history_of_hard_values().state_dict());
  EXPECT_EQ(copy.csv(), history_of_hard_values().csv());
  copy.load_state_dict(History().state_dict());
  EXPECT_EQ(copy.csv(), "\r\n");
}

TEST(History, KeepsItsNotesInItsState) {
  History history = history_of_hard_values();
  history.add_note("one");
  history.add_note("two\nin one line");
  const std::vector<History::Value> row = {{"notes", 1}};
  history.add_row(row);
  History copy;
  copy.load_state_dict(history.state_dict());
  EXPECT_EQ(copy.notes(), (std::vector<std::string>{"one", "two in one line"}));
  EXPECT_EQ(copy.csv(), history.csv());
}

TEST(History, PlotsAWholePicture) {
  const TemporaryFolder folder;
  for (const bool log_y : {false, true}) {
    history_of_hard_values().write_svg(folder / "history.svg", {.title = "a < b & \"c\"", .log_y = log_y});
    const std::string svg = contents(folder / "history.svg");
    EXPECT_EQ(xml_fault(svg), "");
    EXPECT_EQ(svg.find("nan"), svg.npos);
    EXPECT_EQ(svg.find("inf"), svg.npos);
    EXPECT_NE(svg.find(">train_loss</text>"), svg.npos);
    EXPECT_NE(svg.find(">a, &quot;b&quot; &lt;&amp;&gt; ü</text>"), svg.npos);
    EXPECT_EQ(svg.find(">lr<"), svg.npos);
  }
}

// Sets a locale in which numbers look like 1.234,5, while it lives. Not every machine's C library has one.
class GermanNumbers {
 public:
  GermanNumbers() { std::setlocale(LC_NUMERIC, "de_DE.UTF-8"); }
  ~GermanNumbers() {
    std::setlocale(LC_NUMERIC, c_before_.c_str());
    std::locale::global(before_);
  }
  GermanNumbers(const GermanNumbers&) = delete;
  GermanNumbers& operator=(const GermanNumbers&) = delete;

 private:
  struct Marks : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  std::string c_before_ = std::setlocale(LC_NUMERIC, nullptr);
  std::locale before_ = std::locale::global(std::locale(std::locale::classic(), new Marks));
};

template <class Write>
std::string in_german(const Write& write) {
  const GermanNumbers numbers;
  return write();
}

TEST(History, WritesTheSamePictureInEveryLocale) {
  const auto picture = [] { return history_of_hard_values().svg({.width = 1200}); };
  EXPECT_EQ(in_german(picture), picture());
}

TEST(History, SavesTheSameFileInEveryLocale) {
  const TemporaryFolder folder;
  const auto file = [&] {
    StateDict state = history_of_hard_values().state_dict();
    state.add("large", zeros({1000}));
    save(state, folder / "history.safetensors");
    return contents(folder / "history.safetensors");
  };
  EXPECT_EQ(in_german(file), file());
}

// Counts the separate pieces of the only line.
int pieces(const PlotLine& line, const PlotOptions& options = {}) {
  const std::string svg = svg_plot({&line, 1}, options);
  const std::size_t end = svg.find("stroke-linejoin"), begin = svg.rfind("d=\"", end);
  return int(std::count(svg.begin() + std::ptrdiff_t(begin), svg.begin() + std::ptrdiff_t(end), 'M'));
}

TEST(Plot, InterruptsALineWhereItHasNoValue) {
  EXPECT_EQ(pieces({.name = "a", .x = {1, 2, 3, 4, 5}, .y = {1, 2, 3, 2, 1}}), 1);
  EXPECT_EQ(pieces({.name = "a", .x = {1, 2, 3, 4, 5}, .y = {1, 2, NAN, 2, 1}}), 2);
  EXPECT_EQ(pieces({.name = "a", .x = {1, 2, 3, 4, 5}, .y = {1, 0, 2, -1, 3}}, {.log_y = true}), 3);
}

TEST(Plot, DrawsValuesThatDifferByRoundingAlone) {
  EXPECT_EQ(pieces({.name = "a", .x = {1, 2}, .y = {0.1 + 0.2, 0.3}}), 1);
  EXPECT_EQ(pieces({.name = "a", .x = {1, 2}, .y = {-1e15, -1e15 - 0.25}}), 1);
  const PlotLine far = {.name = "a", .x = {1, 2}, .y = {1e308, -1e308}};
  EXPECT_EQ(svg_plot({&far, 1}).find("nan"), std::string::npos);
}

TEST(Plot, DrawsValuesWhereDoublesEnd) {
  constexpr double kMost = std::numeric_limits<double>::max(), kLeast = std::numeric_limits<double>::denorm_min();
  constexpr double kNormal = std::numeric_limits<double>::min();
  const std::vector<std::vector<double>> ends = {{-kMost, kMost},      {kMost / 2, kMost},   {0, kLeast},
                                                 {kLeast, 2 * kLeast}, {kLeast, 4 * kLeast}, {-kLeast, kLeast},
                                                 {0, kNormal},         {kLeast, kMost},      {kLeast, 1e-320},
                                                 {1e-299, 1.1e-299},   {-1e299, 1e299}};
  for (const bool log_y : {false, true})
    for (const std::vector<double>& values : ends)
      for (const PlotLine& line :
           {PlotLine{.name = "a", .x = values, .y = {1, 2}}, PlotLine{.name = "a", .x = {1, 2}, .y = values}}) {
        const std::string svg = svg_plot({&line, 1}, {.log_y = log_y});
        EXPECT_EQ(svg.find("nan"), svg.npos) << values[0] << ' ' << values[1];
        EXPECT_EQ(svg.find("inf"), svg.npos) << values[0] << ' ' << values[1];
        EXPECT_LT(svg.size(), 20'000u);
      }
}

// The labels of the y axis, from bottom to top.
std::vector<std::string> labels(const std::string& svg) {
  const std::string before = "text-anchor=\"end\">";
  std::vector<std::string> found;
  for (std::size_t at = svg.find(before); at != svg.npos; at = svg.find(before, at + 1))
    found.push_back(svg.substr(at + before.size(), svg.find('<', at) - at - before.size()));
  return found;
}

TEST(Plot, LabelsLogarithmicAxesOfEveryExtent) {
  using Labels = std::vector<std::string>;
  const auto of = [](double from, double to) {
    const PlotLine line{.name = "a", .x = {1, 2}, .y = {from, to}};
    return labels(svg_plot({&line, 1}, {.log_y = true}));
  };
  EXPECT_EQ(of(0.69, 0.55), (Labels{"0.55", "0.6", "0.65"}));
  EXPECT_EQ(of(2.3, 2.1), (Labels{"2.1", "2.15", "2.2", "2.25", "2.3"}));
  EXPECT_EQ(of(0.9, 0.6), (Labels{"0.6", "0.7", "0.8", "0.9"}));
  EXPECT_EQ(of(4.9, 2.1), (Labels{"2.5", "3", "3.5", "4", "4.5", "5"}));
  EXPECT_EQ(of(4.9, 0.9), (Labels{"1", "2", "5"}));
  EXPECT_EQ(of(1, 1000), (Labels{"1", "10", "100", "1000"}));
  EXPECT_GE(of(1, 1.001).size(), 2u);
  EXPECT_EQ(of(1, std::nextafter(1, 2)), (Labels{"0.5", "1", "2"}));
}

TEST(Plot, PlacesLinearTicksAtTheirLogarithms) {
  const PlotLine line{.name = "a", .x = {1, 2, 3}, .y = {0.55, 0.6, 0.69}};
  const std::string svg = svg_plot({&line, 1}, {.log_y = true});
  const std::size_t at = svg.find("cy=\"", svg.find("cy=\"") + 1) + 4;
  const std::string height = svg.substr(at, svg.find('"', at) - at);
  EXPECT_NE(svg.find(' ' + height + "\" stroke=\"#e4e4e4\""), svg.npos) << svg;
}

TEST(Plot, DrawsWhatHasNoExtent) {
  for (const bool log_y : {false, true})
    for (const std::vector<double>& y : {std::vector<double>{}, {NAN}, {0}, {3}, {1e-300, 1e300}, {5, 5}}) {
      PlotLine line{.name = "a", .x = {}, .y = y};
      for (std::size_t i = 0; i < y.size(); ++i) line.x.push_back(double(i));
      const std::string svg = svg_plot({&line, 1}, {.log_y = log_y});
      EXPECT_EQ(xml_fault(svg), "");
      EXPECT_EQ(svg.find("nan"), svg.npos);
      EXPECT_LT(svg.size(), 20'000u);
    }
}

// The y coordinates of the line with this stroke.
std::vector<double> heights(const std::string& svg, const std::string& stroke) {
  const std::size_t end = svg.find("stroke=\"" + stroke), begin = svg.rfind("d=\"", end) + 3;
  std::vector<double> found;
  for (std::size_t at = begin; (at = svg.find(' ', at)) < svg.find('"', begin); ++at)
    found.push_back(std::stod(svg.substr(at + 1)));
  return found;
}

double extent(const std::vector<double>& values) {
  const auto [least, greatest] = std::ranges::minmax(values);
  return greatest - least;
}

TEST(Plot, GivesEachPanelAnAxisOfItsOwn) {
  const std::vector<PlotLine> lines = {{.name = "a", .x = {1, 2}, .y = {0, 1}},
                                       {.name = "b", .x = {1, 2}, .y = {0, 1000}, .color = 1, .panel = 1}};
  const std::string svg = svg_plot(lines);
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_NE(svg.find("height=\"840\""), svg.npos);
  EXPECT_GT(extent(heights(svg, "#0072b2")), 200);
  EXPECT_GT(extent(heights(svg, "#d55e00")), 200);
}

History of_columns(const std::vector<std::pair<std::string, std::vector<double>>>& columns) {
  History history;
  for (std::size_t row = 0; row < columns[0].second.size(); ++row) {
    Row values = {{"step", double(row)}};
    for (const auto& [name, numbers] : columns) values.push_back({name, numbers[row]});
    history.add_row(values);
  }
  return history;
}

std::size_t panels(const History& history, const PlotOptions& options = {}) {
  const std::string svg = history.svg(options), before = "height=\"";
  return std::size_t(std::stoi(svg.substr(svg.find(before) + before.size()))) / std::size_t(options.height);
}

TEST(History, PlotsEachScaleInAPanelOfItsOwnSoThatNothingIsFlattened) {
  using Values = std::vector<double>;
  const Values loss = {2.3, 1, 0.2}, accuracy = {0.1, 0.6, 0.9}, f1 = {0.2, 0.5, 0.8}, perplexity = {900, 90, 30};
  EXPECT_EQ(panels(of_columns({{"train_loss", loss}, {"validation_loss", {2.4, 1.1, 0.4}}})), 1u);
  EXPECT_EQ(panels(of_columns({{"train_loss", loss}, {"train_accuracy", accuracy}})), 2u);
  EXPECT_EQ(panels(of_columns({{"train_loss", loss}, {"train_accuracy", accuracy}, {"train_f1", f1}})), 2u);
  EXPECT_EQ(panels(of_columns({{"train_accuracy", accuracy}, {"train_perplexity", perplexity}})), 2u);
  EXPECT_EQ(panels(of_columns({{"train_accuracy", accuracy}, {"train_nothing", Values(3, NAN)}})), 1u);
  // On a logarithmic axis each of these covers more than half.
  EXPECT_EQ(panels(of_columns({{"train_a", {1, 10, 1000}}, {"train_b", {0.1, 1, 100}}})), 2u);
  EXPECT_EQ(panels(of_columns({{"train_a", {1, 10, 1000}}, {"train_b", {0.1, 1, 100}}}), {.log_y = true}), 1u);
}

TEST(Plot, RefusesWhatItCannotDraw) {
  const PlotLine line{.name = "a", .x = {1, 2}, .y = {1}};
  EXPECT_THROW(svg_plot({&line, 1}), InvalidArgument);
  EXPECT_THROW(svg_plot({}, {.width = 10}), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::train
