// A report is one well-formed, self-contained file, whatever the names in it.
#include <lockstep/report/report.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/nn/activations.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/unary.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/memory_plan.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/trainer.h>

#include "support/temporary_folder.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;
using testing::contents;
using testing::TemporaryFolder;

// The text between two marks; `end` is searched after `begin`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  if (at == text.npos) return "";
  const std::size_t first = at + begin.size();
  return text.substr(first, text.find(end, first) - first);
}

Json data_of(const std::string& page) { return Json::parse(between(page, "id=\"data\">", "</script>")); }

// Returns the first mismatched tag, or an empty string. Scripts and styles contain text.
std::string html_fault(const std::string& page) {
  const std::set<std::string> empty = {"meta", "!DOCTYPE"};
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != page.npos; at = page.find('<', at)) {
    const std::size_t end = page.find('>', at);
    if (end == page.npos) return page.substr(at, 40);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" \n", 1) - (tag[0] == '/'));
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return tag;
    at = end;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != name) return tag;
      open.pop_back();
    } else if (!empty.contains(name)) {
      open.push_back(name);
      if (name == "script" || name == "style") at = page.find("</" + name + ">", end);
    }
  }
  return open.empty() ? "" : open.back();
}

History sample(int rows = 20) {
  History history;
  for (int row = 1; row <= rows; ++row) {
    std::vector<History::Value> values = {{"epoch", double(row)},
                                          {"step", row * 10.},
                                          {"seconds", row * 1.5},
                                          {"lr", 0.1 / row},
                                          {"train_loss", 2.3 * std::exp(-0.2 * row)},
                                          {"train_accuracy", 1 - 0.9 / row}};
    if (row % 2 == 0) values.push_back({"validation_loss", 2.4 * std::exp(-0.18 * row)});
    history.add_row(values);
  }
  return history;
}

TEST(Report, IsWellFormed) {
  History history = sample();
  history.add_note("a note");
  const std::string page =
      html_report(history, {.settings = {{"optimizer", "SGD"}}, .trace = {{"matmul", "cpu", 1, 0, 5}}});
  EXPECT_EQ(html_fault(page), "");
  EXPECT_EQ(html_fault(html_report(History())), "");
  EXPECT_NE(html_fault("<p><b></p>"), "");
}

TEST(Report, RefersToNothingOutside) {
  std::string page = html_report(sample());
  const std::string space = "http://www.w3.org/2000/svg";
  for (std::size_t at; (at = page.find(space)) != page.npos;) page.erase(at, space.size());
  for (const char* outside : {"http:", "https:", "//cdn", "src=", "href=", "@import", "url("})
    EXPECT_EQ(page.find(outside), page.npos) << outside;
  EXPECT_NE(page.find("default-src 'none'"), page.npos);
}

TEST(Report, TakesNoMarkupOrCodeFromNames) {
  const std::string hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\\\n<!--";
  History history;
  history.add_row(std::vector<History::Value>{{"step", 1}, {"train_" + hostile, 1}});
  history.add_note(hostile);
  const std::string page =
      html_report(history, {.title = hostile, .settings = {{hostile, hostile}}, .trace = {{hostile, "cpu", 1, 0, 5}}});
  EXPECT_EQ(html_fault(page), "");
  EXPECT_EQ(page.find("<img"), page.npos);
  EXPECT_EQ(page.find("<script>alert"), page.npos);
  EXPECT_EQ(page.find("<!--"), page.npos);
  const Json data = data_of(page);
  EXPECT_EQ(data["series"][0]["name"], "train_" + hostile);  // complete, as data
  EXPECT_EQ(data["trace"]["names"][0], hostile);
}

TEST(Report, HasEachSeriesWithItsValues) {
  const Json data = data_of(html_report(sample(4)));
  ASSERT_EQ(data["series"].size(), 4u);
  EXPECT_EQ(data["series"][0]["name"], "train_loss");
  EXPECT_EQ(data["series"][0]["x"], (std::vector<double>{10, 20, 30, 40}));
  EXPECT_NEAR(data["series"][0]["y"][3].get<double>(), 2.3 * std::exp(-0.8), 1e-6);
  EXPECT_EQ(data["series"][2]["name"], "validation_loss");
  EXPECT_EQ(data["series"][2]["x"], (std::vector<double>{20, 40}));
  EXPECT_EQ(data["series"][2]["panel"], data["series"][0]["panel"]);
  EXPECT_NE(data["series"][1]["panel"], data["series"][0]["panel"]);  // accuracy
  EXPECT_EQ(data["series"][3]["name"], "lr");
}

TEST(Report, LeavesValuesThatAreNotFiniteOut) {
  History history;
  for (const double value : {1., double(NAN), double(INFINITY), 2.})
    history.add_row(std::vector<History::Value>{{"step", 1}, {"train_loss", value}});
  const Json data = data_of(html_report(history));
  EXPECT_EQ(data["series"][0]["y"], Json::parse("[1, null, null, 2]"));
}

TEST(Report, StaysSmallAndKeepsTheExtremesOfALongRun) {
  History history;
  for (int step = 0; step < 100'000; ++step)
    history.add_row(
        std::vector<History::Value>{{"step", double(step)}, {"train_loss", step == 54'321 ? 1e6 : std::sin(step)}});
  std::vector<TraceEvent> trace;
  for (int i = 0; i < 50'000; ++i)
    trace.push_back({"kernel " + std::to_string(i), "cuda:0", i % 8, i * 3., i * 3. + 2});
  std::vector<ReportSetting> settings(5'000, {std::string(1'000, '<'), std::string(1'000, '&')});
  const SimulatedDevices devices({.count = 1});
  const std::string page = html_report(history, {.settings = settings, .trace = trace});
  EXPECT_LT(page.size(), kMaxReportBytes);
  EXPECT_EQ(html_fault(page), "");
  const Json data = data_of(page);
  const auto values = data["series"][0]["y"].get<std::vector<double>>();
  EXPECT_EQ(*std::ranges::max_element(values), 1e6);
  EXPECT_GT(data["trace"]["events"].size(), 100u);
}

TEST(Report, IsWrittenWholeOrNotAtAll) {
  const TemporaryFolder folder;
  write_report(folder / "run.html", sample());
  EXPECT_EQ(contents(folder / "run.html"), html_report(sample()));
  EXPECT_EQ(folder.names(), (std::set<std::string>{"run.html"}));
  EXPECT_THROW(write_report(folder / "no folder" / "run.html", sample()), IoError);
}

// Also used by hta_test.cmake, which sets LOCKSTEP_TRACE, and for looking at the report.
TEST(Report, ShowsARunOfTwoDevices) {
  const TemporaryFolder temporary;
  const char* const kept = std::getenv("LOCKSTEP_INTEROP_FOLDER");
  const std::filesystem::path folder = kept ? kept : temporary.path().string();
  const SimulatedDevices devices({.count = 2});
  manual_seed(1);
  const Tensor x = randn({240, 8});
  data::DataLoader loader(data::TensorDataset(x, (x * 2).slice(1, 0, 2).clone()), {.batch_size = 24, .seed = 1});
  nn::Sequential net(nn::Linear(8, 64), nn::ReLU(), nn::Linear(64, 2));
  optim::SGD optimizer(net.parameters(), {.lr = 0.05});
  const Trainer trainer({.max_epochs = 6, .num_gpus = 2, .log_every = 5, .progress = {.out = nullptr}});
  const Trace trace;
  const History history = trainer.fit(net, loader,
                                      {.loss =
                                           [](auto& model, auto& batch, auto& metrics) {
                                             auto& [input, target] = batch;
                                             const Tensor loss = mse_loss(model(input), target);
                                             metrics.add("rmse", sqrt(loss.detach()));
                                             return loss;
                                           },
                                       .optimizer = optimizer,
                                       .validation = loader});
  write_report(folder / "run.html", history,
               {.title = "Two devices",
                .settings = settings_of(trainer.options()),
                .trace = trace.events(),
                .planned_bytes = memory_plan(net, {.devices = 2, .state_tensors = 0})[Shard::none].total()});
  history.write_svg(folder / "run.svg", {.title = "Two devices"});
  const std::string page = contents(folder / "run.html");
  EXPECT_EQ(html_fault(page), "");
  EXPECT_LT(page.size(), kMaxReportBytes);
  for (const char* said :
       {">cuda:0<", ">cuda:1<", ">Simulated GPU<", ">all_reduce<", ">matmul<", ">max_epochs<", ">2 GPUs<", ">5.758 KiB<"})
    EXPECT_NE(page.find(said), page.npos) << said;
  const Json data = data_of(page);
  const auto lanes = data["trace"]["lanes"].get<std::vector<std::string>>();
  for (const char* lane : {"cuda:0 stream 0", "cuda:1 stream 0"})
    EXPECT_NE(std::ranges::find(lanes, lane), lanes.end()) << lane;
}

}  // namespace
}  // namespace lockstep::train
