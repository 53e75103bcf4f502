#include "contract/run.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "contract/batch.h"
#include "contract/net.h"
#include "core/text.h"
#include "nn/each_state.h"
#include "support/in_processes.h"
#include "support/replicas.h"

namespace lockstep::contract {
namespace {

std::vector<double> doubles(const Tensor& tensor) {
  return tensor.detach().to(Device(), kFloat64).contiguous().to_vector<double>();
}

StateDict kept(const StateDict& state) {
  StateDict copy;
  for (const auto& [key, value] : state) copy.add(key, value.detach().to(Device()).clone());
  return copy;
}

Shard shard_of(std::string_view name) {
  for (const Shard shard : {Shard::optimizer_state, Shard::gradients, Shard::hybrid, Shard::parameters})
    if (text(shard) == name) return shard;
  return Shard::none;
}

// One process of the run, or the truth.
class Run {
 public:
  Run(const Case& given, Layout layout, const World& world, bool is_truth, bool eager)
      : c_(given),
        layout_(layout),
        world_(world),
        is_truth_(is_truth),
        dtype_(given.is("dtype", "float64")   ? kFloat64
               : given.is("dtype", "float32") ? kFloat32
                                              : kBFloat16),
        captured_(!given.is("step", "eager")),
        eager_(eager),
        steps_(captured_ ? 6 : 4),
        event_(captured_ ? 4 : 2) {}

  Result train() {
    generator_ = {.seed = c_.seed};
    begin(c_.seed + std::uint64_t(world_.rank().value()));  // processes draw different models, and all get process 0's
    for (int s = 0; s < steps_; ++s) in_thread([&] { step(s); });
    in_thread([&] { end(); });
    return std::move(result_);
  }

 private:
  // If the case says so, each step runs on a new thread.
  void in_thread(const std::function<void()>& f) {
    const auto run = [&] {
      const GeneratorGuard guard(generator_);
      f();
    };
    if (is_truth_ || c_.is("caller", "main")) return run();
    std::exception_ptr failure;
    std::thread([&] {
      try {
        run();
      } catch (...) {
        failure = std::current_exception();
      }
    }).join();
    if (failure) std::rethrow_exception(failure);
  }

  Net made(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    const auto uniform = [&](const Tensor& like, double low, double high) {
      std::vector<double> values(std::size_t(like.numel()));
      for (double& v : values) v = low + (high - low) * double(random() >> 11) / double(1ull << 53);
      return from_host(values.data(), values.size(), kFloat64, like.sizes());
    };
    GeneratorState numbers;
    const GeneratorGuard own_numbers(numbers);
    Net net(c_, is_truth_);
    const NoGrad guard;
    for (auto& [name, value] : net.state_dict()) {
      Tensor target = value;
      const bool is_scale = name.find("norm.weight") != std::string::npos || name.find("var") != std::string::npos ||
                            name.find("value") != std::string::npos || name == "scale";
      if (is_floating(target.dtype())) target.copy_(uniform(target, is_scale ? 0.5 : -0.5, is_scale ? 1.5 : 0.5));
    }
    net.to(dtype_);
    return net;
  }

  Net& module() { return is_truth_ ? *net_ : model_->module(); }
  nn::ModuleBase& whole() { return is_truth_ ? static_cast<nn::ModuleBase&>(*net_) : *model_; }
  Device device() const { return is_truth_ ? Device() : model_->device(); }
  bool sums() const { return c_.is("reduction", "sum"); }

  void begin(std::uint64_t seed) {
    if (is_truth_) {
      net_.emplace(made(seed));
    } else {
      DeviceIds ids;
      const int devices = layout_.devices;
      for (int d = 0; d < devices; ++d) ids.push_back(world_.rank().value() * devices + d);
      const bool small = c_.is("buckets", "small");
      BucketOptions buckets;
      if (small) buckets.first_bytes = 128, buckets.bytes = 700;
      if (c_.is("comm_hook", "all_reduce"))
        buckets.comm_hook = [](ReducingBucket& bucket) { bucket.all_reduce(bucket.buffers()); };
      model_.emplace(made(seed),
                     DataParallelOptions{.device_ids = ids,
                                         .scatter = scatter_options(c_, devices),
                                         .gather = c_.is("where", "inside_mean") ? Gather::mean : Gather::concatenate,
                                         .buckets = buckets,
                                         .shard = shard_of(c_["shard"]),
                                         .world = world_,
                                         .loss = sums() ? ProcessLoss::sum : ProcessLoss::mean});
    }
    Net& net = module();
    if (net.scale) net.scale->requires_grad_();
    if (c_.is("freeze", "start")) freeze(net, false);
    const std::vector<Tensor> parameters = net.parameters();
    const std::string_view name = c_["optimizer"];
    // Large enough that the quotient does not magnify the rounding of vanishing gradients.
    const double eps = dtype_ == kBFloat16 || !c_.is("autocast", "off") ? 1 : 1e-2;
    if (name == "adamw")
      optimizer_ = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 0.02, .eps = eps});
    else if (name == "rmsprop")
      optimizer_ = std::make_unique<optim::RMSprop>(parameters, optim::RMSpropOptions{.lr = 0.02, .eps = eps});
    else if (name == "adagrad")
      optimizer_ = std::make_unique<optim::Adagrad>(parameters, optim::AdagradOptions{.lr = 0.02, .eps = eps});
    else
      optimizer_ = std::make_unique<optim::SGD>(
          parameters, optim::SGDOptions{.lr = 0.1, .momentum = name == "sgd" ? 0 : 0.9, .weight_decay = 0.01});
    if (c_.is("hook", "clamp")) register_hook(net.out.weight, [](const Tensor& g) { return clamp(g, -0.02, 0.02); });
    if (c_.is("hook", "count")) register_accumulated_hook(net.out.weight, [this](const Tensor&) { ++hooked_; });
    step_graph_.reset();
    if (captured_ && !eager_) step_graph_.emplace(Body{this});
  }

  void freeze(Net& net, bool on) {
    net.in.weight.requires_grad_(on);
    net.in.bias->requires_grad_(on);
  }

  std::int64_t rows_in(int s, int micro) const {
    std::int64_t rows = c_.number("rows");
    if (c_.is("batches", "varying") && s % 2 == 1 && (!captured_ || s >= 3)) rows = std::max<std::int64_t>(1, rows - 2);
    return micro == 0 ? rows : std::max<std::int64_t>(1, rows - 1);
  }

  int micros() const {
    const std::string_view backwards = c_["backwards"];
    return backwards == "one" || backwards == "twice" ? 1 : 2;
  }

  // The rows of this process, in the layout and on the device of the model.
  Tensor mine(const Batch& batch, const Tensor& all) const {
    Tensor rows = all;
    if (!is_truth_) {
      const auto [first, count] = batch.of_process[std::size_t(world_.rank().value())];
      rows = all.narrow(0, first, count);
    }
    if (c_.is("scatter_dim", "1")) rows = (rows.dim() == 1 ? rows.unsqueeze(0) : rows.t()).contiguous();
    return rows.to(device());
  }
  Tensor y_rows(const Tensor& y) const {
    if (c_.is("scatter_dim", "0")) return y;
    return is_floating(y.dtype()) ? y.t() : y[0];
  }
  Tensor as_rows(const Tensor& rows) const { return c_.is("scatter_dim", "0") ? rows : rows.t(); }

  Output forward(const Batch& batch, const Tensor& x, const Tensor& y) {
    if (!is_truth_) return (*model_)(x, y, step_);
    const TruthPass pass(batch.shards);
    return (*net_)(x, y, step_);
  }

  std::int64_t all_rows(const Batch& batch) const { return is_truth_ ? batch.rows : model_->batch_rows(); }

  // The loss of one batch: the part that counts by rows, and the additional number if there is one.
  struct Loss {
    Tensor main, beside, rows;
    Tensor total() const { return beside.defined() ? main + beside * 0.3 : main; }
  };

  Loss loss_of(const Batch& batch, const Tensor& x, const Tensor& y) {
    const std::string_view where = c_["where"], term = c_["term"];
    const Output output = forward(batch, x, y);
    Loss loss;
    if (where == "outside" || where == "pair") loss.rows = output.rows;
    const auto of_replicas = [&](const auto& f) {  // for the truth
      std::vector<Tensor> each;
      for (const auto& [first, count] : batch.shards)
        if (count > 0)
          each.push_back(f(as_rows(output.rows).narrow(0, first, count), y_rows(y).narrow(0, first, count)));
      return stack(each);
    };
    const double rows(all_rows(batch));
    const auto joined = [&](const Tensor& values) { return sums() ? sum(values) / rows : mean(values); };
    const auto counted = [&](const Tensor& of_rows) {
      if (!is_truth_ && is_weighted(c_))
        return model_->over_processes(mean_cross_entropy(as_rows(of_rows), y_rows(y))).value();
      const Tensor found = loss_of_rows(c_, as_rows(of_rows), y_rows(y));
      return sums() ? found / rows : found;
    };
    if (is_truth_ ? where != "inside_vector" : where == "outside" || where == "pair")
      loss.main = counted(output.rows);
    else if (where == "inside_mean")
      loss.main = output.mean ? output.mean->value() : output.value;
    else if (is_truth_)
      loss.main = joined(of_replicas([&](const Tensor& r, const Tensor& t) { return loss_of_rows(c_, r, t); }));
    else
      loss.main = joined(output.value);
    if (where == "pair")
      loss.beside = joined(is_truth_ ? of_replicas([&](const Tensor& r, const Tensor&) { return value_of_rows(c_, r); })
                                     : output.value);
    if (term == "l2") {
      loss.main = loss.main + of_a_weight();
    } else if (term == "penalty") {
      const Tensor slope = gradients({sum(output.rows)}, {x}, {}, {.create_graph = true})[0];
      const Tensor of_rows = sum(square(as_rows(slope)), {1});
      loss.main = loss.main + joined(of_rows) * 0.3;
    } else if (term == "feedback") {
      const Output again = forward(batch, tanh(output.rows), y);
      loss.main = loss.main + counted(again.rows) * 0.5;
    }
    return loss;
  }

  // A term of parameters alone. If losses are sums over all processes, each process adds a part of it.
  Tensor of_a_weight() {
    const Tensor squares = sum(square(module().mid.weight)) * 0.05;
    return sums() && !is_truth_ ? squares / double(world_.size()) : squares;
  }

  // Runs forward and backward of the step's batches; returns all values to record, as one vector.
  Tensor passes(const std::vector<Tensor>& inputs) {
    const std::string_view backwards = c_["backwards"], term = c_["term"];
    std::vector<Loss> losses;
    const auto backward = [&](const Tensor& loss, bool retain = false) {
      Tensor root = scaler_ ? scaler_->scale(loss) : loss;
      if (overflows()) root = root * std::numeric_limits<double>::infinity();
      if (term == "param_gradients") {
        std::vector<Tensor> parameters;
        for (const Tensor& p : module().parameters())
          if (p.requires_grad()) parameters.push_back(p);
        const std::vector<Tensor> found = gradients(std::span(&root, 1), parameters);
        for (std::size_t i = 0; i < parameters.size(); ++i)
          if (found[i].defined()) parameters[i].set_grad(found[i]);
        return;
      }
      lockstep::backward({root}, {}, {.retain_graph = retain, .create_graph = term == "second_order"});
      if (term != "second_order") return;
      Tensor of_gradients;
      for (const Tensor& p : module().parameters()) {
        if (!p.grad().defined()) continue;
        const Tensor squares = sum(square(p.grad())) * 0.2;
        of_gradients = of_gradients.defined() ? of_gradients + squares : squares;
      }
      of_gradients.backward();
    };
    for (int m = 0; m < micros(); ++m) {
      const Batch& batch = batches_[std::size_t(m)];
      Tensor x = inputs[std::size_t(2 * m)];
      if (c_.is("term", "penalty") && !x.requires_grad()) x = x.detach().requires_grad_();
      std::optional<DataParallel<Net>::NoSync> no_sync;
      if (backwards == "no_sync" && m == 0 && model_) no_sync.emplace(*model_);
      {
        std::optional<Autocast> region;
        if (!c_.is("autocast", "off")) region.emplace(c_.is("autocast", "bfloat16") ? kBFloat16 : kFloat16);
        losses.push_back(loss_of(batch, x, inputs[std::size_t(2 * m + 1)]));
      }
      if (backwards == "twice") backward(losses.back().total(), true);
      if (backwards != "joint") backward(losses.back().total());
    }
    if (backwards == "joint") backward(losses[0].total() + losses[1].total());
    if (term == "own_backward" && module().mid.weight.requires_grad()) backward(of_a_weight());
    const std::string_view hand = c_["hand"];
    for (Tensor& p : module().parameters()) {
      if ((hand != "scale_gradient" && hand != "set_grad") || !p.grad().defined()) continue;
      const NoGrad guard;
      if (hand == "scale_gradient")
        p.grad().mul_(0.5);
      else
        p.set_grad(p.grad().detach() * 0.5);
    }
    std::vector<Tensor> seen;
    const auto see = [&](const Tensor& t) {
      if (t.defined()) seen.push_back(t.detach().to(kFloat64).reshape({-1}));
    };
    for (const Loss& loss : losses) see(loss.main), see(loss.beside);
    for (const Loss& loss : losses)
      if (loss.rows.defined()) see(as_rows(loss.rows));
    return cat(seen);
  }

  bool overflows() const { return c_.is("scaler", "overflow") && step_ == event_; }

  void update() {
    if (scaler_) scaler_->unscale_(*optimizer_);
    if (is_truth_ && overflows()) return;
    if (c_.is("clip", "norm")) optim::clip_grad_norm_(module().parameters(), 0.3);
    if (c_.is("clip", "value")) optim::clip_grad_value_(module().parameters(), 0.05);
    if (scaler_) {
      scaler_->step(*optimizer_);
      scaler_->update();
    } else {
      optimizer_->step();
    }
  }

  // The function of a captured step.
  struct Body {
    Run* run;
    template <class... Inputs>
    Tensor operator()(const Inputs&... inputs) const {
      return run->run_step({inputs...});
    }
  };
  Tensor run_step(const std::vector<Tensor>& inputs) {
    const bool alone = c_.is("step", "captured_backward");
    if (!alone) optimizer_->zero_grad();
    const Tensor seen = passes(inputs);
    if (!alone) update();
    return seen;
  }

  void step(int s) {
    step_ = s;
    const std::string_view hand = c_["hand"], state = c_["optimizer_state"], mode = c_["mode"];
    if (s == 0 && !c_.is("scaler", "off") && !is_truth_) scaler_.emplace(optim::GradScalerOptions{.init_scale = 1024});
    if (s == 0 && hand == "load") loaded_ = kept(module().state_dict());
    if (s == 1 && state == "load") loaded_optimizer_ = kept(optimizer_->state_dict());
    if (s == event_) {
      if (c_.is("resume", "midway") && !is_truth_) resume();
      const NoGrad guard;
      if (hand == "weights") module().mid.weight.mul_(0.8), module().out.bias->add_(0.1);
      if (hand == "load") module().load_state_dict(loaded_);
      if (hand == "buffers")
        for (auto& [name, value] : module().state_dict())
          if (name.find("running") != std::string::npos || name.find("value") != std::string::npos)
            value_named(name).mul_(0.7);
      if (state == "lr") optimizer_->set_lr(optimizer_->lr() * 0.5);
      if (state == "momentum" && optimizer_->momentum()) optimizer_->set_momentum(0.5, 0);
      if (state == "load") optimizer_->load_state_dict(loaded_optimizer_);
      if (state == "reset") optimizer_->reset_state();
      if (mode == "dropout_p") module().drop.p = 0.5;
      if (mode == "eval_once") whole().eval();
      if (c_.is("freeze", "once")) freeze(module(), false);
    }
    if (c_.is("freeze", "alternating")) freeze(module(), s % 2 == 0);

    batches_.clear();
    std::vector<Tensor> inputs;
    for (int m = 0; m < micros(); ++m) {
      batches_.push_back(batch_of(c_, layout_, rows_in(s, m), std::uint64_t(s * 2 + m), dtype_));
      Tensor x = mine(batches_.back(), batches_.back().x);
      if (c_.is("input_grad", "on")) x = x.detach().clone().requires_grad_();
      inputs.push_back(x);
      inputs.push_back(mine(batches_.back(), batches_.back().y));
    }
    const bool outside = captured_ && c_.is("step", "captured_backward");
    if (outside) optimizer_->zero_grad();
    const Tensor seen = !step_graph_         ? run_step(inputs)
                        : inputs.size() == 2 ? (*step_graph_)(inputs[0], inputs[1])
                                             : (*step_graph_)(inputs[0], inputs[1], inputs[2], inputs[3]);
    if (outside) update();
    if (mode == "eval_once" && s == event_) train_again();
    record(seen, inputs);
    for (Tensor& input : inputs)
      if (input.requires_grad()) input.set_grad({});  // it may have a graph
    after();
  }

  void train_again() {
    whole().train();
    if (c_.is("norm", "batch_eval")) module().norm->eval();
  }

  nn::Buffer& value_named(const std::string& wanted) {
    nn::Buffer* found = nullptr;
    nn::for_each_state(module(), [&](const nn::Path& path, nn::Buffer& value) {
      if (path.str() == wanted) found = &value;
    });
    return *found;
  }

  // Continues with a new model and optimizer from the state of the old ones.
  void resume() {
    const StateDict model = kept(module().state_dict()), optimizer = kept(optimizer_->state_dict());
    drop_gradients();
    step_graph_.reset();
    optimizer_.reset();
    model_.reset();
    begin(c_.seed + 77);
    module().load_state_dict(model);
    optimizer_->load_state_dict(optimizer);
    if (scaler_) {
      const StateDict scale = scaler_->state_dict();
      scaler_.emplace();
      scaler_->load_state_dict(scale);
    }
  }

  std::string at(const char* what, std::size_t m = 0) const {
    return "step " + std::to_string(step_) + ": " + what + (m ? " " + std::to_string(m) : "");
  }

  void record(const Tensor& seen, const std::vector<Tensor>& inputs) {
    const std::vector<double> values = doubles(seen);
    const std::string_view where = c_["where"];
    const std::size_t here(world_.rank().value());
    std::size_t next = 0;
    for (std::size_t m = 0; m < batches_.size(); ++m) {
      const Batch& batch = batches_[m];
      const auto add = [&](const char* name, bool by_replica) {
        double weight = 1;
        if (!is_truth_ && !sums())
          weight = by_replica ? double(batch.replicas[here]) / double(batch.all_replicas())
                              : double(batch.of_process[here].count) / double(batch.rows);
        result_.push_back({at(name, m), {values.at(next++)}, Entry::Of::weighted, weight});
      };
      add("loss", where == "inside_vector");
      if (where == "pair") add("number beside", true);
    }
    for (std::size_t m = 0; m < batches_.size() && (where == "outside" || where == "pair"); ++m) {
      const std::int64_t rows = is_truth_ ? batches_[m].rows : batches_[m].of_process[here].count;
      const auto begin = values.begin() + std::ptrdiff_t(next);
      next += std::size_t(rows * kFeatures);
      result_.push_back({at("output", m), {begin, values.begin() + std::ptrdiff_t(next)}, Entry::Of::rows});
    }
    if (c_.is("input_grad", "on") && !overflows())
      for (std::size_t m = 0; m < batches_.size(); ++m)
        if (inputs[2 * m].grad().defined())
          result_.push_back({at("gradient of x", m), doubles(as_rows(inputs[2 * m].grad())), Entry::Of::rows});
  }

  void after() {
    const NoGrad guard;
    const std::vector<Tensor> parameters = module().parameters();
    if (c_.is("ema", "on")) {
      if (averages_.empty())
        for (const Tensor& p : parameters) averages_.push_back(p.detach().clone());
      for (std::size_t i = 0; i < parameters.size(); ++i) averages_[i].mul_(0.8).add_(parameters[i] * 0.2);
    }
    if (!c_.is("evaluation", "none")) evaluate(at("evaluation"), c_.is("evaluation", "autocast"));
    if (c_.is("look", "each") && !overflows()) record_gradients();
    if (c_.is("hook", "count")) result_.push_back({at("calls of the hook"), {double(hooked_)}, Entry::Of::all});
  }

  void evaluate(const std::string& name, bool autocast) {
    whole().eval();
    const Batch batch = batch_of(c_, layout_, 7, 1000 + std::uint64_t(step_), dtype_);
    {
      const NoGrad guard;
      std::optional<Autocast> region;
      if (autocast) region.emplace(kBFloat16);
      const Output output = forward(batch, mine(batch, batch.x), mine(batch, batch.y));
      if (!is_truth_ && output.rows.defined())
        result_.push_back({name, doubles(as_rows(output.rows)), Entry::Of::rows, 1, autocast});
      else if (is_truth_ && (c_.is("where", "outside") || c_.is("where", "pair")))
        result_.push_back({name, doubles(as_rows(output.rows)), Entry::Of::rows, 1, autocast});
    }
    train_again();
  }

  void record_gradients() {
    for (const auto& [name, p] : module().named_parameters())
      result_.push_back({at("gradient of ") + name, p.grad().defined() ? doubles(p.grad()) : std::vector<double>()});
    if (module().scale && module().scale->grad().defined())
      result_.push_back({at("gradient of scale"), doubles(module().scale->grad())});
  }

  void end() {
    if (!overflows()) record_gradients();
    for (const auto& [name, value] : module().state_dict()) result_.push_back({name, doubles(value)});
    for (const auto& [name, value] : optimizer_->state_dict()) result_.push_back({"optimizer " + name, doubles(value)});
    for (std::size_t i = 0; i < averages_.size(); ++i)
      result_.push_back({"average " + std::to_string(i), doubles(averages_[i])});
    result_.push_back({"random numbers drawn", {double(current_generator().offset)}});
    evaluate("evaluation at the end", false);
    for (const auto& [name, p] : module().named_parameters())
      for (const Tensor& replica : testing::other_replicas(p))
        if (doubles(replica) != doubles(p)) throw std::runtime_error("replicas of " + name + " differ");
    drop_gradients();
  }

  // A gradient with a graph owns its leaf.
  void drop_gradients() {
    whole().zero_grad();
    if (module().scale) module().scale->set_grad({});
  }

  const Case c_;
  const Layout layout_;
  const World world_;
  const bool is_truth_;
  const DType dtype_;
  const bool captured_;  // such runs have more steps
  const bool eager_;     // runs these steps without capture
  const int steps_, event_;
  GeneratorState generator_;
  std::optional<Net> net_;
  std::optional<DataParallel<Net>> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::GradScaler> scaler_;
  std::optional<train::CapturedStep<Body>> step_graph_;
  std::vector<Batch> batches_;  // of this step
  int step_ = 0;
  std::atomic<int> hooked_ = 0;
  StateDict loaded_, loaded_optimizer_;
  std::vector<Tensor> averages_;
  Result result_;
};

std::string what_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "not an exception";
  }
}

}  // namespace

Layout layout_of(const Case& given) { return {given.number("processes"), given.number("devices")}; }

Result truth_of(const Case& given) { return Run(given, layout_of(given), World(), true, true).train(); }

std::vector<Result> run(const Case& given, Layout layout, const Variant& variant) {
  const SimulatedDevices devices({.count = layout.processes * layout.devices,
                                  .seed = given.seed + variant.delays,
                                  .max_delay_us = given.is("delays", "on") ? 100 : 0});
  const int threads = num_threads();
  if (given.is("threads", "1")) set_num_threads(1);
  std::vector<Result> results(static_cast<std::size_t>(layout.processes));
  const std::vector<std::exception_ptr> thrown = testing::in_processes(
      layout.processes,
      [&](const World& world) {
        results[std::size_t(world.rank().value())] = Run(given, layout, world, false, variant.eager).train();
      },
      std::chrono::seconds(10));
  set_num_threads(threads);
  std::string all;
  for (std::size_t p = 0; p < thrown.size(); ++p)
    if (thrown[p]) all += (all.empty() ? "process " : "; process ") + std::to_string(p) + ": " + what_of(thrown[p]);
  for (int d = 0; d < layout.processes * layout.devices && all.empty(); ++d) {
    synchronize(Device::cuda(d));
    const std::size_t bytes = memory_stats(Device::cuda(d)).in_use;
    if (bytes > 0) all = std::to_string(bytes) + " bytes stay in use on cuda:" + std::to_string(d);
  }
  if (!all.empty()) throw std::runtime_error(all);
  return results;
}

}  // namespace lockstep::contract
