// The part of FitLoop that calls callbacks and saves their state; and FitState.
#include <set>
#include <string>
#include <utility>

#include <lockstep/train/callback.h>
#include <lockstep/train/fit_loop.h>

#include "core/text.h"
#include "train/processes.h"

namespace lockstep::train {

Callback::~Callback() = default;

std::int64_t FitState::epoch() const noexcept { return loop_->running_epoch_; }
std::int64_t FitState::max_epochs() const noexcept { return loop_->options_.max_epochs; }
std::int64_t FitState::step() const noexcept { return loop_->step_; }
bool FitState::is_resumed() const noexcept { return loop_->is_resumed_; }
bool FitState::has_validation() const noexcept { return loop_->parts_.has_validation; }
nn::ModuleBase& FitState::module() const noexcept { return loop_->parts_.module; }
const World& FitState::world() const noexcept { return loop_->world_; }
const History& FitState::history() const noexcept { return loop_->history_; }
std::span<const History::Value> FitState::metrics() const noexcept { return loop_->last_values_; }
void FitState::stop(std::string reason) {
  if (!std::exchange(loop_->asks_to_stop_, true)) loop_->stop_reason_ = std::move(reason);
}
bool FitState::is_stopping() const noexcept { return loop_->asks_to_stop_ || loop_->is_stopping_; }

optim::Optimizer& FitState::optimizer(std::size_t index) const {
  const auto& trained = loop_->parts_.trained;
  if (index >= trained.size())
    throw InvalidArgument(text("[callback] expected an optimizer from 0 to ", trained.size() - 1, ", got ", index));
  return trained[index].optimizer;
}

double FitState::metric(std::string_view name) const {
  std::string names;
  for (const History::Value& value : metrics()) {
    if (value.column == name) return value.value;
    names += (names.empty() ? "" : ", ") + value.column;
  }
  refuse(text("[callback] expected an existing value (", names.empty() ? "none yet" : names, "), got ", name));
}

void FitState::refuse(const std::string& message) const {
  world().throw_on_all(std::make_exception_ptr(InvalidArgument(message)));
}

void FitState::on_first_process(const char* what, const std::function<void()>& write) const {
  detail::all_or_throw(world(), what, [&] {
    if (world().is_first()) write();
    return std::string();
  });
}

void CallbackRef::check() const {
  if (!callback_) throw InvalidArgument("[callbacks] expected a callback, got a null pointer");
}

namespace detail {

void FitLoop::check_callbacks() const {
  std::set<std::string> names;
  for (const Callback& callback : parts_.callbacks)
    if (!callback.state_dict().empty() && !names.insert(callback.name()).second)
      throw InvalidArgument(
          text("[trainer] expected callbacks with state under different names, got ", callback.name(), " twice"));
}

void FitLoop::call_callbacks(void (Callback::*turn)(FitState&)) {
  for (Callback& callback : parts_.callbacks) (callback.*turn)(state_);
}

void FitLoop::agree_to_stop() {
  if (parts_.callbacks.empty()) return;
  for (const std::string& asks :
       all_or_throw(world_, "stopping", [&] { return std::string(asks_to_stop_ ? "yes" : ""); }))
    is_stopping_ = is_stopping_ || !asks.empty();
}

StateDict FitLoop::callback_states() const {
  StateDict all;
  for (const Callback& callback : parts_.callbacks)
    for (const auto& [key, tensor] : callback.state_dict()) all.add(text(callback.name(), '.', key), tensor);
  return all;
}

// A callback without state in the checkpoint keeps its initial state. Throws InvalidArgument for state of a callback
// that is not in the list.
void FitLoop::load_callbacks(const StateDict& states) {
  std::set<std::string> known;
  std::vector<std::pair<Callback*, StateDict>> before;
  try {
    for (Callback& callback : parts_.callbacks) {
      const std::string prefix = callback.name() + '.';
      StateDict own;
      for (const auto& [key, tensor] : states)
        if (key.starts_with(prefix)) own.add(key.substr(prefix.size()), tensor), known.insert(key);
      if (own.empty()) continue;
      before.emplace_back(&callback, callback.state_dict());
      callback.load_state_dict(own);
    }
    for (const auto& [key, tensor] : states)
      if (!known.contains(key))
        throw InvalidArgument(
            text("[trainer] the checkpoint has callback state ", key,
                 ", but no callback with that name() is in .callbacks. Add it, or start in a new folder"));
  } catch (...) {
    for (const auto& [callback, state] : before) callback->load_state_dict(state);
    throw;
  }
}

}  // namespace detail
}  // namespace lockstep::train
