// Printing of modules, and summary().
#include <lockstep/nn/summary.h>

#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <sstream>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/runtime/memory.h>

#include "core/context.h"
#include "core/text.h"
#include "core/type_name.h"
#include "nn/training_mode_guard.h"

namespace lockstep::nn {
namespace {

// One module of the tree, in the order of visit().
struct Line {
  std::string path, name, text;  // name: the path relative to the parent module
  const ModuleBase* module;
  std::size_t depth;
  std::int64_t parameters = 0;  // elements of its own parameters
};

class Lines final : public Visitor {
 public:
  void module(const Path& path, ModuleBase& module) override {
    const std::string at = path.str();
    close(at);
    std::ostringstream text;
    module.pretty_print(text);
    const std::string above = open_.empty() ? "" : all[open_.back()].path;
    const std::string name = above.empty() ? at : at.substr(above.size() + 1);
    open_.push_back(all.size());
    all.push_back({at, name, std::move(text).str(), &module, open_.size() - 1});
  }
  void parameter(const Path& path, Parameter& value) override {
    close(path.str());
    if (value.defined() && !open_.empty()) all[open_.back()].parameters += value.numel();
    count(value);
    if (value.defined() && value.requires_grad()) trainable += value.numel();
  }
  void buffer(const Path&, Buffer& value) override { count(value); }

  std::vector<Line> all;
  std::int64_t trainable = 0, bytes = 0;

 private:
  void count(const Tensor& value) {
    if (value.defined()) bytes += value.numel() * std::int64_t(size_of(value.dtype()));
  }
  // Closes the open modules that do not contain `path`.
  void close(const std::string& path) {
    const auto holds = [&](const Line& line) { return line.path.empty() || path.starts_with(line.path + "."); };
    while (!open_.empty() && !holds(all[open_.back()])) open_.pop_back();
  }
  std::vector<std::size_t> open_;
};

Lines lines_of(const ModuleBase& module) {
  Lines lines;
  const_cast<ModuleBase&>(module).visit(Path(), lines);  // walking does not change the module
  return lines;
}

std::string thousands(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = std::ptrdiff_t(digits.size()) - 3; at > 0; at -= 3) digits.insert(std::size_t(at), ",");
  return digits;
}

std::string mebibytes(double bytes) {
  std::ostringstream out;
  out.precision(2);
  out << std::fixed << bytes / (1 << 20) << " MiB";
  return std::move(out).str();
}

class Shapes final : public ForwardObserver {
 public:
  void ran(const ModuleBase& module, const Tensor* output) override {
    shapes[&module] = output && output->defined() ? text(output->sizes()) : "";
  }
  std::map<const ModuleBase*, std::string> shapes;
};

void write_tree(std::ostream& out, const std::vector<Line>& lines, std::size_t& at) {
  const Line& line = lines[at++];
  const std::string indent(2 * line.depth, ' ');
  out << indent;
  if (!line.name.empty()) out << '(' << line.name << "): ";
  if (at == lines.size() || lines[at].depth <= line.depth) {
    out << line.text << '\n';
    return;
  }
  const std::size_t settings = line.text.find('(') + 1;
  out << line.text.substr(0, settings) << '\n';
  if (line.text.size() > settings + 1)
    out << indent << "  " << line.text.substr(settings, line.text.size() - settings - 1) << '\n';
  while (at < lines.size() && lines[at].depth > line.depth) write_tree(out, lines, at);
  out << indent << ")\n";
}

}  // namespace

detail::OwnLine::OwnLine(std::ostream& out, const std::type_info& type) : out_(out) {
  out_ << short_type_name(type) << '(';
}
detail::OwnLine::~OwnLine() { out_ << ')'; }
std::ostream& detail::OwnLine::name(std::string_view name) {
  if (std::exchange(first_, false) == false) out_ << ", ";
  return out_ << name << '=';
}
void detail::OwnLine::setting(std::string_view named, double value) { name(named) << value; }
void detail::OwnLine::setting(std::string_view named, std::int64_t value) { name(named) << value; }
void detail::OwnLine::setting(std::string_view named, bool value) { name(named) << (value ? "True" : "False"); }

void ModuleBase::pretty_print(std::ostream& out) const { out << short_type_name(typeid(*this)) << "()"; }

std::int64_t ModuleBase::num_parameters() const {
  std::int64_t count = 0;
  for (const Line& line : lines_of(*this).all) count += line.parameters;
  return count;
}

std::ostream& operator<<(std::ostream& out, const ModuleBase& module) {
  const Lines lines = lines_of(module);
  std::ostringstream whole;
  std::size_t at = 0;
  if (!lines.all.empty()) write_tree(whole, lines.all, at);
  std::string tree = std::move(whole).str();
  if (!tree.empty()) tree.pop_back();  // the final newline
  return out << tree;
}

std::string detail::summarize(ModuleBase& model, const std::function<void()>& run) {
  Shapes shapes;
  std::size_t peak = 0;
  {
    const TrainingModeGuard modes(model);
    const NoGrad guard;
    model.eval();
    std::vector<Tensor> parameters = model.parameters();
    const Device device = parameters.empty() ? Device() : parameters[0].device();
    reset_peak_memory(device);
    const std::size_t before = memory_stats(device).in_use;
    Context observed = context();
    observed.forward_observer = &shapes;
    const ContextScope scope(observed);
    run();
    peak = memory_stats(device).peak_in_use - before;
  }
  const Lines lines = lines_of(model);
  std::vector<std::array<std::string, 3>> rows = {{"Layer", "Output shape", "Parameters"}};
  std::int64_t total = 0;
  for (const Line& line : lines.all) {
    const std::string name = line.name.empty() ? "" : text('(', line.name, "): ");
    rows.push_back({std::string(2 * line.depth, ' ') + name + line.text.substr(0, line.text.find('(')),
                    shapes.shapes[line.module], line.parameters ? thousands(line.parameters) : "-"});
    total += line.parameters;
  }
  std::array<std::size_t, 3> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < 3; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::ostringstream out;
  const std::string rule(widths[0] + widths[1] + widths[2] + 4, '-');
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [layer, shape, parameters] = rows[i];
    out << layer << std::string(widths[0] + 2 - layer.size(), ' ') << shape
        << std::string(widths[1] + 2 - shape.size() + widths[2] - parameters.size(), ' ') << parameters << '\n';
    if (i == 0) out << rule << '\n';
  }
  out << rule << "\nParameters: " << thousands(total) << " (" << thousands(lines.trainable) << " trained)\n"
      << "Parameters and buffers: " << mebibytes(double(lines.bytes))
      << "\nPeak of the pass: " << mebibytes(double(peak)) << '\n';
  return std::move(out).str();
}

}  // namespace lockstep::nn
