// An optimizer's settings as text, which the processes of a model compare.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "distributed/same_lines.h"
#include "optim/optimizer_impl.h"

namespace lockstep::optim {
namespace {

struct ToText {
  std::string operator()(const double* value) const { return exact(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::int64_t* value) const { return text(*value); }
  std::string operator()(const std::array<double, 2>* values) const {
    return text(exact((*values)[0]), " and ", exact((*values)[1]));
  }
};

}  // namespace

std::string Optimizer::settings() const {
  const char* const name = impl_->name;
  std::string lines = text(name, " of ", impl_->groups.size(), " groups\n");
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    for (const Option& option : const_cast<Optimizer*>(this)->option_list(g))  // option_list() changes nothing
      lines += text(name, " group ", g, ": ", option.name, ' ', std::visit(ToText(), option.value), '\n');
    const ParameterGroup& group = impl_->groups[g];
    for (std::size_t i = 0; !impl_->is_logged && i < group.parameters.size(); ++i)
      if (const autograd::Replica* const own = autograd::replica_of(group.parameters[i]))
        lines += text(name, " group ", g, ": parameter ", own->parameter->entry(), " of its model, ",
                      group.parameters[i].sizes(), ' ', group.parameters[i].dtype(), ", after ", group.states[i].step,
                      " steps\n");
  }
  return lines;
}

void Optimizer::compare_settings() {
  std::vector<std::shared_ptr<CallLog>> logs;
  for (const ParameterGroup& group : impl_->groups)
    for (const auto& log : call_logs(group.parameters))
      if (std::ranges::find(logs, log) == logs.end()) logs.push_back(log);
  if (logs.empty()) return;
  const std::string lines = settings();
  for (const auto& log : logs) log->add(lines);
  impl_->is_logged = true;
  if (std::exchange(impl_->is_compared, true)) return;
  for (const auto& log : logs)
    log->compare("[optimizer] expected the same optimizer in all processes", "comparing optimizers");
}

}  // namespace lockstep::optim
