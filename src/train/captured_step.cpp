#include <lockstep/train/captured_step.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include <lockstep/autograd/autocast.h>
#include <lockstep/core/error.h>
#include <lockstep/core/moved_from.h>
#include <lockstep/core/rethrow.h>
#include <lockstep/tensor/creation.h>

#include "autograd/node.h"
#include "core/context.h"
#include "core/text.h"
#include "runtime/graph.h"
#include "runtime/registry.h"
#include "tensor/copy.h"
#include "tensor/host_state.h"
#include "tensor/replay_values.h"

namespace lockstep::train::detail {
namespace {

// The settings of this thread and process that a step depends on. (HostState has the state of the objects that a step
// uses, such as modules and optimizers.)
struct CaptureEnvironment {
  std::vector<Device> gpus = visible_gpus();
  std::shared_ptr<DeviceSet> devices = accelerators();
  std::array<std::int8_t, Context::kMaxDevices> streams = context().streams;
  bool records = context().recording;
  std::optional<DType> autocast = autocast_dtype();

  const char* find_mismatch() const {
    const CaptureEnvironment now;
    if (now.devices != devices || now.gpus != gpus) return "the GPUs";
    if (now.streams != streams) return "the current streams";
    if (now.records != records) return "the recording of gradients (NoGrad)";
    return now.autocast == autocast ? nullptr : "autocast";
  }
};

struct Captured {
  std::vector<Tensor> inputs;
  Tensor output;
  CaptureEnvironment environment;
  HostState parts;
  std::unique_ptr<ReplayValues> values;
  std::optional<Graph> graph;  // last: destroyed first, since it uses the others

  // Returns the name of something that the step depends on and that has changed since the capture; null if nothing has.
  const char* find_mismatch() {
    if (const char* const what = environment.find_mismatch()) return what;
    if (graph->has_failed()) return "a communicator, which has failed";
    return parts.find_mismatch();
  }
  void launch() {
    values->send();
    graph->launch();
  }
};

bool have_same_shapes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const Tensor& x, const Tensor& y) { return x.sizes() == y.sizes() && x.dtype() == y.dtype(); });
}

// Inputs that require gradients prevent a replay: their gradients flow on into an autograd graph outside the capture.
bool have_gradients(const std::vector<Tensor>& inputs) {
  return std::ranges::any_of(inputs, [](const Tensor& input) { return input.requires_grad(); });
}

std::vector<Tensor> on_gpu(const std::vector<Tensor>& tensors, Device first) {
  std::vector<Tensor> moved;
  for (const Tensor& tensor : tensors) moved.push_back(tensor.device().is_cpu() ? tensor.to(first) : tensor);
  return moved;
}

Tensor eagerly(const StepGraph::Step& step, const std::vector<Tensor>& inputs) {
  const Tensor output = step(inputs);
  return output.defined() ? output.detach() : output;
}

}  // namespace

struct StepGraph::State {
  explicit State(int eager) : eager_steps(eager) {}

  const int eager_steps;
  int steps = 0;               // steps taken eagerly
  std::vector<Tensor> before;  // the inputs of the latest eager step
  HostState parts;             // the parts that the latest eager step used
  std::optional<Captured> captured;
  bool has_missed = false;  // the latest step did not match the capture, and ran eagerly
  bool has_told = false;

  bool can_launch(const std::vector<Tensor>& given);
  Tensor take_eagerly(const Step& step, const std::vector<Tensor>& inputs);
  Tensor capture(const Step& step, const std::vector<Tensor>& inputs);
  Tensor launch(const std::vector<Tensor>& given);
  void forget() noexcept {
    captured.reset();
    before.clear();
    parts = HostState();
    steps = 0;
    has_missed = false;
  }
};

// After a change the step is taken eagerly, which may restore the captured state (for example, it brings replicas in
// lockstep). If the next step finds a change too, the capture is dropped, and the previous eager step counts as the
// first of the eager_steps before a new capture.
bool StepGraph::State::can_launch(const std::vector<Tensor>& given) {
  if (!captured || !have_same_shapes(captured->inputs, given) || have_gradients(given)) return false;
  const char* const change = captured->find_mismatch();
  const bool missed_before = std::exchange(has_missed, change != nullptr);
  if (!change) return true;
  if (!std::exchange(has_told, true))
    std::cerr << text("[CapturedStep] changed after the capture: ", change,
                      ". This step runs eagerly. If the next step differs from the capture too, a step is captured "
                      "again (reported once)\n");
  if (missed_before) {
    captured.reset();
    steps = 1;
  }
  return false;
}

Tensor StepGraph::State::take_eagerly(const Step& step, const std::vector<Tensor>& inputs) {
  parts = HostState();
  Context own = context();
  own.host_state = &parts;
  const ContextScope scope(own);
  Tensor output;
  try {
    output = eagerly(step, inputs);
  } catch (...) {  // the parts that it did not reach are unknown
    parts = HostState();
    before.clear();
    steps = 0;
    throw;
  }
  parts.after_step();
  if (captured) captured->parts.after_step();
  ++steps;
  before = inputs;
  return output;
}

// If the step throws, the work that it had enqueued until then is executed, as in an eager step.
Tensor StepGraph::State::capture(const Step& step, const std::vector<Tensor>& inputs) {
  Captured made;
  for (const Tensor& input : inputs) made.inputs.push_back(input.detach().clone());
  made.parts = std::move(parts);
  forget();
  made.parts.begin();
  made.values = std::make_unique<ReplayValues>(autograd::next_node());
  std::exception_ptr failure;
  {
    Context own = context();
    own.replay_values = made.values.get();
    own.host_state = &made.parts;
    // a new autocast region, because the casts in the cache of an outer one were computed outside the capture
    own.autocast = nullptr;
    const ContextScope scope(own);
    std::optional<Autocast> region;
    if (made.environment.autocast) region.emplace(*made.environment.autocast);
    GraphCapture capture;
    try {
      made.output = eagerly(step, made.inputs);
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      made.values->run_before_end();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    made.values->end_capture();
    try {
      made.graph = capture.end();
    } catch (...) {
      if (!failure) throw;
    }
  }
  if (made.graph) made.launch();
  if (failure) try {
      std::rethrow_exception(failure);
    } catch (...) {
      lockstep::detail::rethrow_with_context("while a training step was captured");
    }
  made.parts.end(*made.values);
  made.parts.after_step();
  return captured.emplace(std::move(made)).output;
}

Tensor StepGraph::State::launch(const std::vector<Tensor>& given) {
  for (std::size_t i = 0; i < given.size(); ++i) copy_values(captured->inputs[i], given[i]);
  captured->values->advance();
  captured->launch();
  captured->values->bump_versions();
  captured->parts.restore_captured();
  return captured->output;
}

StepGraph::StepGraph(const CapturedStepOptions& options) : state_(std::make_unique<State>(options.eager_steps)) {
  if (options.eager_steps < 1)
    throw InvalidArgument(text("[CapturedStep] expected at least 1 eager step, got ", options.eager_steps));
}
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
StepGraph::~StepGraph() = default;

bool StepGraph::is_captured() const noexcept { return state_ && state_->captured; }

void StepGraph::reset() { lockstep::detail::checked_deref(state_, "CapturedStep", "a step").forget(); }

Tensor StepGraph::run(const std::vector<Tensor>& given, const Step& step) {
  State& s = lockstep::detail::checked_deref(state_, "CapturedStep", "a step");
  const std::vector<Device> gpus = visible_gpus();
  if (gpus.empty()) return eagerly(step, given);
  if (s.can_launch(given)) return s.launch(given);
  const std::vector<Tensor> inputs = on_gpu(given, gpus.front());
  const bool is_next = !s.captured && s.steps >= s.eager_steps;
  if (is_next && have_same_shapes(s.before, inputs) && !have_gradients(inputs)) return s.capture(step, inputs);
  return s.take_eagerly(step, inputs);
}

}  // namespace lockstep::train::detail
