#include "contract/features.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace lockstep::contract {

// One row for each feature. net.cpp and run.cpp explain a value where they use it.
const std::vector<Feature>& features() {
  static const std::vector<Feature> all = {
      // The module.
      {"parts",
       {"mlp", "conv", "layer_norm", "embedding", "lstm", "lstm_steps_first", "attention", "encoder",
        "encoder_steps_first"}},
      {"norm", {"none", "batch", "batch_eval", "sync", "sync_parallel", "sync_sizes"}, true},
      {"buffer", {"none", "primary", "mean", "equal", "trained"}, true},
      {"branch", {"none", "never", "by_step", "by_replica"}, true},
      {"dropout", {"none", "rows", "inner"}},
      {"tie", {"off", "on"}},
      {"writes", {"none", "view"}},
      {"checkpoint", {"off", "body", "all"}, true},
      // The loss.
      {"loss", {"mse", "cross_entropy", "padding"}},
      {"reduction", {"mean", "sum"}},
      {"where", {"outside", "inside_mean", "inside_vector", "pair"}, true},
      {"term", {"none", "l2", "penalty", "feedback", "second_order", "param_gradients", "own_backward"}, true},
      {"input_grad", {"off", "on"}},
      // Processes and devices, and the division of rows between them.
      {"devices", {"1", "2", "3", "5"}, true},
      {"processes", {"1", "2", "3"}, true},
      {"rows", {"8", "7", "5", "2", "1"}},
      {"batches", {"same", "varying"}},
      {"split", {"chunk", "balanced", "weights", "gap"}},
      {"share", {"even", "uneven", "none_last", "none_first"}},
      {"scatter_dim", {"0", "1"}},
      {"delays", {"off", "on"}},
      {"threads", {"default", "1"}},
      {"caller", {"main", "thread"}},
      // The loop.
      {"backwards", {"one", "two", "no_sync", "joint", "twice"}, true},
      {"dtype", {"float64", "float32", "bfloat16"}},
      {"autocast", {"off", "bfloat16", "float16"}},
      {"scaler", {"off", "on", "overflow"}},
      {"step", {"eager", "captured", "captured_backward"}, true},
      {"shard", {"none", "optimizer_state", "gradients", "hybrid", "parameters"}, true},
      {"buckets", {"default", "small"}},
      {"comm_hook", {"off", "all_reduce"}},
      {"optimizer", {"momentum", "sgd", "adamw", "rmsprop", "adagrad"}},
      {"clip", {"none", "norm", "value"}},
      {"hook", {"none", "clamp", "count"}},
      {"freeze", {"none", "start", "once", "alternating"}, true},
      {"hand", {"none", "weights", "load", "buffers", "scale_gradient", "set_grad"}},
      {"optimizer_state", {"kept", "lr", "momentum", "load", "reset"}},
      {"mode", {"train", "eval_once", "dropout_p"}},
      {"evaluation", {"none", "no_grad", "autocast"}},
      {"look", {"end", "each"}},
      {"ema", {"off", "on"}},
      {"resume", {"none", "midway"}},
  };
  return all;
}

const std::vector<Rule>& meaningless() {
  static const std::vector<Rule> all = {
      {"processes!=1 step!=eager", "work with other processes is not captured"},
      {"comm_hook=all_reduce shard=optimizer_state|gradients|hybrid|parameters", "refused: a hook leaves whole sums"},
      {"branch=by_step|by_replica step!=eager", "the host decides, in the captured step alone"},
      {"scaler!=off step!=eager", "a GradScaler reads on the host"},
      {"input_grad=on step!=eager", "a captured step copies its inputs"},
      {"hook=count step!=eager", "a hook runs on the host, in the captured step alone"},
      {"where=inside_mean reduction=sum", "the mean of sums is no sum over the batch"},
      {"where=inside_mean|inside_vector term=penalty|feedback", "the loss is made of outputs that the model keeps"},
      {"loss=padding where=inside_vector reduction=mean", "a replica of padding alone has no mean"},
      {"split=gap devices=1", "the only device would get no rows"},
      {"share!=even processes=1", "one process has all rows"},
      {"checkpoint=all norm=sync|sync_parallel|sync_sizes", "sums over replicas are refused in checkpoints"},
      {"autocast!=off dtype!=float32", "autocast leaves float64, and a 16-bit model needs none"},
      {"evaluation=autocast dtype!=float32", "as above"},
      {"scaler!=off hook=clamp", "hooks see scaled gradients"},
      {"scaler!=off input_grad=on", "the gradient of x is scaled"},
      {"scaler!=off term=second_order|param_gradients", "gradients that go into a loss would be scaled"},
      {"scaler!=off buffer=trained", "its gradient is scaled, and nothing drops it after a skipped step"},
      {"term=second_order processes!=1", "refused: gradients with a graph are not summed over processes"},
      {"term=param_gradients processes!=1", "refused: sums over processes belong to backward()"},
      {"term=param_gradients|second_order backwards!=one", "one gradient is enough"},
      {"term=param_gradients hook!=none", "gradients() accumulates nothing"},
      {"term=second_order hook!=none", "the hook would see parts of a sum"},
      {"resume=midway buffer=trained", "its gradient is not in the state dict"},
      {"step=captured optimizer=sgd|rmsprop optimizer_state=momentum", "refused: another kernel than the captured one"},
      {"parts=embedding term=feedback dtype!=float64", "rounding would choose other rows"},
  };
  return all;
}

const std::vector<Rule>& known_faults() {
  static const std::vector<Rule> all = {
      {"loss!=mse reduction=sum processes!=1 scatter_dim=1",
       "other bits than one process with all devices where a process has one row, whose transpose is contiguous"},
  };
  return all;
}

namespace {

std::size_t feature_index(std::string_view name) {
  const auto& all = features();
  const auto found = std::ranges::find(all, name, &Feature::name);
  if (found == all.end()) throw std::invalid_argument("no feature is called \"" + std::string(name) + "\"");
  return std::size_t(found - all.begin());
}

std::uint8_t value_index(std::size_t feature, std::string_view value) {
  const auto& [name, values, _] = features()[feature];
  const auto found = std::ranges::find(values, value);
  if (found == values.end()) {
    std::string known;
    for (const std::string_view each : values) known += " " + std::string(each);
    throw std::invalid_argument("\"" + std::string(name) + "\" has the values" + known + ", not \"" +
                                std::string(value) + "\"");
  }
  return std::uint8_t(found - values.begin());
}

}  // namespace

std::string_view Case::operator[](std::string_view feature) const {
  const std::size_t f = feature_index(feature);
  return features()[f].values[values[f]];
}

bool Case::is(std::string_view feature, std::string_view value) const {
  const std::size_t f = feature_index(feature);
  return values[f] == value_index(f, value);
}

int Case::number(std::string_view feature) const { return std::stoi(std::string((*this)[feature])); }

Case Case::with(std::string_view feature, std::string_view value) const {
  Case other = *this;
  const std::size_t f = feature_index(feature);
  other.values[f] = value_index(f, value);
  return other;
}

std::string Case::text() const {
  std::string all;
  for (std::size_t f = 0; f < values.size(); ++f)
    if (values[f] != 0)
      all += std::string(features()[f].name) + "=" + std::string(features()[f].values[values[f]]) + " ";
  return all + "seed=" + std::to_string(seed);
}

Case parsed(std::string_view text) {
  Case result;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("expected feature=value, got \"" + word + "\"");
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "seed")
      result.seed = std::stoull(value);
    else
      result = result.with(name, value);
  }
  return result;
}

Constraints::Constraints(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    Compiled compiled{&rule, {}};
    std::istringstream words{std::string(rule.together)};
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      const bool is_not = word[equals - 1] == '!';
      Term term{feature_index(std::string_view(word).substr(0, equals - is_not)), 0};
      std::istringstream values(word.substr(equals + 1));
      for (std::string value; std::getline(values, value, '|');) term.mask |= 1u << value_index(term.feature, value);
      if (is_not) term.mask = ~term.mask;
      compiled.terms.push_back(term);
    }
    rules_.push_back(std::move(compiled));
  }
}

const Rule* Constraints::broken_by(const std::vector<std::uint8_t>& values) const {
  for (const auto& [rule, terms] : rules_) {
    const bool holds = std::ranges::all_of(terms, [&](const Term& term) {
      const std::uint8_t value = values[term.feature];
      return value != kOpen && (term.mask >> value & 1) != 0;
    });
    if (holds) return rule;
  }
  return nullptr;
}

bool Constraints::complete(std::vector<std::uint8_t>& values) const {
  if (broken_by(values)) return false;
  auto neutral = values;
  std::ranges::replace(neutral, kOpen, std::uint8_t(0));
  const Rule* const broken = broken_by(neutral);
  if (!broken) {
    values = neutral;
    return true;
  }
  // Try other values for the open features of the broken rule.
  const auto& terms = std::ranges::find(rules_, broken, &Compiled::rule)->terms;
  for (const auto& [f, mask] : terms) {
    if (values[f] != kOpen) continue;
    for (std::uint8_t value = 0; value < features()[f].values.size(); ++value) {
      if (mask >> value & 1) continue;
      auto next = values;
      next[f] = value;
      if (!complete(next)) continue;
      values = next;
      return true;
    }
  }
  return false;
}

std::vector<std::uint8_t> Constraints::breaking(std::size_t n, std::uint64_t way) const {
  std::vector<std::uint8_t> values(features().size(), kOpen);
  for (const auto& [f, mask] : rules_[n].terms) {
    std::vector<std::uint8_t> allowed;
    for (std::uint8_t value = 0; value < features()[f].values.size(); ++value)
      if (mask >> value & 1) allowed.push_back(value);
    values[f] = allowed[way % allowed.size()];
    way /= allowed.size();
  }
  return values;
}

const Constraints& constraints(bool with_known) {
  static const Constraints alone(meaningless());
  static const std::vector<Rule> both = [] {
    std::vector<Rule> rules = meaningless();
    rules.insert(rules.end(), known_faults().begin(), known_faults().end());
    return rules;
  }();
  static const Constraints all(both);
  return with_known ? all : alone;
}

}  // namespace lockstep::contract
