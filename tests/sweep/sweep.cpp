// Compares the calls of functions.def with PyTorch's results (sweep.py): values, dtypes, shapes and first gradients.
// Prints every wrong call, and writes a table. Run by hand: docs/sweep.md.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "ops/all_ops.h"
#include "support/values.h"

namespace lockstep::sweep {
namespace {

using Json = nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Outputs : std::vector<Tensor> {
  Outputs(const Tensor& only) : vector{only} {}
  Outputs(std::vector<Tensor> several) : vector(std::move(several)) {}
  Outputs(const ValuesAndIndices& both) : vector{both.values, both.indices} {}
  Outputs(const LSTMState& state) : vector{state.h, state.c} {}
};

struct Row {
  const char* function;
  int line;
  std::string text;
  std::function<Outputs(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& w)> call;
};

#define ROW(function, inputs, python, ...)                                                                  \
  {#function, __LINE__, #__VA_ARGS__,                                                                       \
   []([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y, [[maybe_unused]] const Tensor& z, \
      [[maybe_unused]] const Tensor& w) -> Outputs { return __VA_ARGS__; }},

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
#include "sweep/functions.def"
  };
  return table;
}
#undef ROW

// An intended difference, from tests/sweep/differences.txt: patterns for the function, for the kind of difference and
// for the rest of the printed line, and the reason.
struct Difference {
  std::string functions;
  std::regex function, kind, details;
  std::string why;
  int calls = 0;
};

struct Counts {
  int calls = 0, agree = 0, refused = 0, taken = 0, documented = 0, wrong = 0;
};

// Sizes, dtype and elements of a tensor in the files.
struct Known {
  Shape sizes;
  DType dtype;
  std::vector<double> values;
};

class Sweep {
 public:
  explicit Sweep(const std::string& folder) {
    file_ = Json::parse(std::ifstream(folder + "/sweep.json"));
    std::ifstream in(folder + "/sweep.bin", std::ios::binary);
    words_ = {std::istreambuf_iterator<char>(in), {}};
    for (const Row& row : rows()) by_line_[row.line] = &row;
    std::ifstream listed(std::string(LOCKSTEP_SWEEP_FOLDER) + "/differences.txt");
    for (std::string line; std::getline(listed, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream parts(line);
      std::string function, kind, details, why;
      std::getline(parts, function, ';'), std::getline(parts, kind, ';'), std::getline(parts, details, ';');
      std::getline(parts, why);
      differences_.push_back({trimmed(function), std::regex(trimmed(function)), std::regex(trimmed(kind)),
                              std::regex(trimmed(details)), trimmed(why)});
    }
  }

  bool run() {
    for (const Json& call : file_.at("calls")) run(call);
    bool right = true;
    for (const auto& [function, counts] : counts_) right = right && counts.wrong == 0;
    for (const Difference& d : differences_)
      if (d.calls == 0) std::printf("not met: %s\n", d.why.c_str());
    return right;
  }

  void write_table(std::ostream& out) const;

 private:
  static std::string trimmed(const std::string& text) {
    const auto begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
    return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
  }

  Known known(const Json& json) const {
    static const std::map<std::string, DType> dtypes = {
        {"bool", kBool},       {"uint8", kUInt8},       {"int32", kInt32},     {"int64", kInt64},
        {"float16", kFloat16}, {"bfloat16", kBFloat16}, {"float32", kFloat32}, {"float64", kFloat64}};
    const auto sizes = json.at("sizes").get<std::vector<std::int64_t>>();
    Known tensor = {Shape(std::span<const std::int64_t>(sizes)), dtypes.at(json.at("dtype")), {}};
    tensor.values.resize(std::size_t(tensor.sizes.elements()));
    const char* const from = words_.data() + 8 * json.at("at").get<std::size_t>();
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      std::int64_t whole;
      std::memcpy(tensor.dtype == kInt64 ? static_cast<void*>(&whole) : static_cast<void*>(&tensor.values[i]),
                  from + 8 * i, 8);
      if (tensor.dtype == kInt64) tensor.values[i] = double(whole);
    }
    return tensor;
  }

  // Lays out the input as laid_out() in inputs.py does.
  Tensor input(const Json& json) const {
    if (json.is_null()) return {};
    const Known from = known(json);
    Tensor x = tensor(from.values, {.dtype = kFloat64}).view(from.sizes).to(from.dtype);
    const std::string layout = json.at("layout");
    if (layout == "gaps") x = testing::with_gaps(x);
    if (layout == "reversed") x = testing::reversed_in_memory(x);
    if (layout == "expanded") x = x.narrow(0, 0, 1).expand(x.sizes());
    x = x.detach();
    return is_floating(x.dtype()) ? x.requires_grad_() : x;
  }

  static constexpr double kLeastWeight = 0.25;
  // Computes the weights that weight() in sweep.py computes.
  static Tensor weights(const Tensor& y) {
    std::vector<double> numbers(std::size_t(y.numel()));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(int(i % 5) - 2) * 0.5 + 0.25;
    return tensor(numbers, {.dtype = kFloat64}).view(y.sizes()).to(y.dtype());
  }

  // The tolerance for a result's dtype, relative to the element and to the largest one.
  static double tolerance(DType dtype) {
    switch (dtype) {
      case kFloat64: return 1e-10;
      case kFloat32: return 2e-6;
      case kFloat16: return 1.5e-3;
      case kBFloat16: return 1.2e-2;
      default: return 0;
    }
  }

  // The tolerance for the narrowest floating dtype among the result and the inputs.
  static double room(DType dtype, const std::vector<Tensor>& inputs) {
    double most = tolerance(dtype);
    for (const Tensor& x : inputs)
      if (most > 0 && x.defined() && x.is_floating_point()) most = std::max(most, tolerance(x.dtype()));
    return most;
  }

  // The first element that equals neither PyTorch's result nor PyTorch's float64 result; empty if there is none. Where
  // terms cancel, the tolerance is also relative to `largest`.
  static std::string difference(const Tensor& got, const Known& expected, const Known* exact, double room,
                                double largest) {
    const std::vector<double> actual = testing::values(got);
    if (exact && exact->sizes != expected.sizes) exact = nullptr;
    for (const double value : expected.values)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    const auto is_close = [&](double value, double truth) {
      if (std::isnan(truth)) return std::isnan(value);
      if (value == truth) return true;
      if (std::isinf(truth)) return false;
      return std::abs(value - truth) <= room * (std::abs(truth) + std::min(largest, 100.)) + 1e-3 * room;
    };
    const auto rounded = [&](double value) {
      return tensor({value}, {.dtype = kFloat64}).to(expected.dtype).to(kFloat64).item<double>();
    };
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (is_close(actual[i], expected.values[i])) continue;
      if (exact && (is_close(actual[i], exact->values[i]) || is_close(actual[i], rounded(exact->values[i])))) continue;
      std::ostringstream text;
      text << "[" << i << "]: expected " << expected.values[i];
      if (exact) text << " (in float64 " << exact->values[i] << ")";
      text << ", got " << actual[i];
      return text.str();
    }
    return "";
  }

  struct Verdict {
    std::string kind, text;  // empty: agrees
  };

  Verdict judge(const Json& call, const Row& row, const std::vector<Tensor>& x) const {
    std::vector<Tensor> outputs;
    try {
      outputs = row.call(x[0], x[1], x[2], x[3]);
      if (call.contains("refused")) return {"taken", "PyTorch: " + call.at("refused").get<std::string>()};
    } catch (const Error& error) {
      if (call.contains("refused")) return {};
      return {"refused", error.what()};
    } catch (const std::exception& error) {
      return {"thrown", error.what()};
    }
    const Json& expected = call.at("outputs");
    if (outputs.size() != expected.size()) return {"count", std::to_string(outputs.size())};
    const Json exact = call.value("exact", Json::array());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Known truth = known(expected[i]);
      std::ostringstream text;
      text << "expected " << truth.dtype << " " << truth.sizes << ", got " << outputs[i].dtype() << " "
           << outputs[i].sizes();
      if (outputs[i].sizes() != truth.sizes) return {"shape", text.str()};
      if (outputs[i].dtype() != truth.dtype) return {"dtype", text.str()};
      const Known in_float64 = i < exact.size() ? known(exact[i]) : Known();
      const std::string found =
          difference(outputs[i], truth, i < exact.size() ? &in_float64 : nullptr, room(truth.dtype, x), 0);
      if (!found.empty()) return {"value", found};
    }
    return judge_gradients(call, x, outputs);
  }

  Verdict judge_gradients(const Json& call, const std::vector<Tensor>& x, const std::vector<Tensor>& outputs) const {
    std::vector<Tensor> roots, seeds;
    for (const Tensor& y : outputs)
      if (y.requires_grad()) roots.push_back(y), seeds.push_back(weights(y));
    const Json& grads = call.at("grads");
    if (grads.is_string()) return {};
    try {
      if (!roots.empty()) backward(roots, seeds);
    } catch (const std::exception& error) {
      return {"thrown", error.what()};
    }
    const Json exact = call.value("exact_grads", Json::array());
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const Tensor got = x[i].defined() ? x[i].grad() : Tensor();
      const std::string name = std::string("gradient of ") + "xyzw"[i];
      if (grads[i].is_null() && !got.defined()) continue;
      if (grads[i].is_null()) {
        if (any(ne(got, 0)).item<bool>()) return {"unasked gradient", name};
        continue;  // undefined, or zeros
      }
      if (!got.defined()) return {"no gradient", name};
      const Known truth = known(grads[i]);
      const bool has_exact = i < exact.size() && !exact[i].is_null();
      const Known in_float64 = has_exact ? known(exact[i]) : Known();
      const std::string found =
          difference(got, truth, has_exact ? &in_float64 : nullptr, 8 * room(truth.dtype, x), kLeastWeight);
      if (!found.empty()) return {"gradient", name + found};
    }
    return {};
  }

  void run(const Json& call) {
    const Row& row = *by_line_.at(call.at("line"));
    const Json& set = file_.at("inputs").at(call.at("inputs").get<std::string>()).at(call.at("set").get<std::size_t>());
    std::vector<Tensor> x;
    for (const Json& each : set.at("tensors")) x.push_back(input(each));
    x.resize(4);
    const Verdict verdict = judge(call, row, x);
    Counts& counts = counts_[row.function];
    ++counts.calls;
    if (verdict.kind.empty()) return void(++counts.agree);
    const std::string said =
        row.text + " | " + set.at("name").get<std::string>() + " | " + verdict.kind + " | " + verdict.text;
    for (Difference& d : differences_)
      if (std::regex_match(row.function, d.function) && std::regex_match(verdict.kind, d.kind) &&
          std::regex_search(said, d.details)) {
        ++d.calls;
        return void(++counts.documented);
      }
    const bool is_wrong = verdict.kind != "refused" && verdict.kind != "taken";
    ++(is_wrong ? counts.wrong : verdict.kind == "refused" ? counts.refused : counts.taken);
    if (!is_wrong && !std::getenv("LOCKSTEP_SWEEP_ALL")) return;
    std::printf("%s\n", said.c_str());
  }

  Json file_;
  std::string words_;
  std::map<int, const Row*> by_line_;
  std::vector<Difference> differences_;
  std::map<std::string, Counts> counts_;
};

void Sweep::write_table(std::ostream& out) const {
  Counts all;
  for (const auto& [function, c] : counts_) {
    all.calls += c.calls, all.agree += c.agree, all.refused += c.refused, all.taken += c.taken;
    all.documented += c.documented, all.wrong += c.wrong;
  }
  const auto line = [&](const std::string& name, const Counts& c) {
    out << "| " << name << " | " << c.calls << " | " << c.agree << " | " << c.refused << " | " << c.taken << " | "
        << c.documented << " | " << c.wrong << " |\n";
  };
  out << "PyTorch " << file_.at("torch").get<std::string>() << ", " << counts_.size() << " functions.\n\n"
      << "| function | calls | agree | we refuse | PyTorch refuses | documented | wrong "
         "|\n|---|---|---|---|---|---|---|\n";
  line("**all**", all);
  for (const auto& [function, c] : counts_) line("`" + function + "`", c);
  out << "\n| function | documented difference | calls |\n|---|---|---|\n";
  for (const Difference& d : differences_)
    out << "| `" << std::regex_replace(d.functions, std::regex("\\|"), "`, `") << "` | " << d.why << " | " << d.calls
        << " |\n";
}

}  // namespace
}  // namespace lockstep::sweep

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [PAGE]    (FOLDER: sweep.py's; PAGE: gets the tables)\n", arguments[0]);
    return 2;
  }
  lockstep::sweep::Sweep sweep(arguments[1]);
  const bool right = sweep.run();
  if (count > 2) {  // keeps the page up to its mark, then writes the tables
    std::ifstream in(arguments[2]);
    std::string page;
    for (std::string line; page.find("<!-- sweep -->") == std::string::npos && std::getline(in, line);)
      page += line + "\n";
    std::ofstream out(arguments[2]);
    out << page << "\n";
    sweep.write_table(out);
  }
  return right ? 0 : 1;
}
