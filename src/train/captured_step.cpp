#include <lockstep/train/captured_step.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/core/rethrow.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/context.h"
#include "core/text.h"
#include "runtime/graph.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/step_values.h"

namespace lockstep::train::detail {
namespace {

struct Captured {
  std::vector<Tensor> inputs;
  Tensor output;
  std::unique_ptr<StepValues> values;
  std::optional<Graph> graph;  // the first to go: it uses the others
};

bool have_same_shapes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const Tensor& x, const Tensor& y) { return x.sizes() == y.sizes() && x.dtype() == y.dtype(); });
}

std::vector<Tensor> on_gpu(const std::vector<Tensor>& tensors, Device first) {
  std::vector<Tensor> moved;
  for (const Tensor& tensor : tensors) moved.push_back(tensor.device().is_cpu() ? tensor.to(first) : tensor);
  return moved;
}

}  // namespace

struct StepGraph::State {
  const int eager_steps;
  int steps = 0;               // taken eagerly
  std::vector<Tensor> before;  // the inputs of the last one
  std::optional<Captured> captured;

  static Tensor eagerly(const Step& step, const std::vector<Tensor>& inputs) {
    const Tensor output = step(inputs);
    return output.defined() ? output.detach() : output;
  }
  void capture(const Step& step, const std::vector<Tensor>& inputs);
  Tensor launch() {
    captured->values->send();
    captured->graph->launch();
    return captured->output;
  }
};

void StepGraph::State::capture(const Step& step, const std::vector<Tensor>& inputs) {
  Captured made;
  for (const Tensor& input : inputs) made.inputs.push_back(input.detach().clone());
  made.values = std::make_unique<StepValues>();
  const GeneratorState random = current_generator();
  try {
    Context own = context();
    own.step_values = made.values.get();
    const ContextScope scope(own);
    GraphCapture capture;
    made.output = eagerly(step, made.inputs);
    made.values->end_capture();
    made.graph = capture.end();
  } catch (...) {
    set_generator(random);
    lockstep::detail::rethrow_with_context("while a training step was captured");
  }
  captured = std::move(made);
}

StepGraph::StepGraph(const CapturedStepOptions& options)
    : state_(std::make_unique<State>(State{options.eager_steps, 0, {}, {}})) {
  if (options.eager_steps < 1)
    throw InvalidArgument(text("[CapturedStep] expected at least 1 eager step, got ", options.eager_steps));
}
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
StepGraph::~StepGraph() = default;

bool StepGraph::is_captured() const noexcept { return state_->captured.has_value(); }

void StepGraph::reset() noexcept {
  state_->captured.reset();
  state_->before.clear();
  state_->steps = 0;
}

Tensor StepGraph::run(const std::vector<Tensor>& given, const Step& step) {
  State& s = *state_;
  const std::vector<Device> gpus = visible_gpus();
  if (gpus.empty()) return s.eagerly(step, given);
  if (s.captured && have_same_shapes(s.captured->inputs, given)) {
    for (std::size_t i = 0; i < given.size(); ++i) copy_values(s.captured->inputs[i], given[i]);
    s.captured->values->advance();
    return s.launch();
  }
  const std::vector<Tensor> inputs = on_gpu(given, gpus.front());
  if (s.captured) return s.eagerly(step, inputs);
  if (s.steps >= s.eager_steps && have_same_shapes(s.before, inputs)) {
    s.capture(step, inputs);
    s.before.clear();
    return s.launch();
  }
  const Tensor output = s.eagerly(step, inputs);
  ++s.steps;
  s.before = inputs;
  return output;
}

}  // namespace lockstep::train::detail
