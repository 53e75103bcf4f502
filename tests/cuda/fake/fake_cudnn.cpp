#include "cuda/fake/fake_cudnn.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <set>

struct cudnnContext {
  int card;
  cudaStream_t stream = nullptr;
};

namespace lockstep::fake {
namespace {

// The fake's engines, listed in this order: the first is nondeterministic, the second rounds more than requested, the
// third cannot be finalized, and the last is suitable.
constexpr int kNotDeterministic = 0, kRounds = 1, kNotReady = 2, kGood = 3;

constexpr std::int64_t kWorkspaceBytes = 1000;

std::set<const void*> objects;

struct Rule {
  int name;
  std::vector<cudnnBackendAttributeType_t> types;
  bool required = true;
};

// The attributes that may be set on a descriptor, and those that must be.
std::vector<Rule> rules_of(const CudnnObject& object) {
  if (const ConvolutionNames* names = names_of(object)) {
    std::vector<Rule> rules{{names->alpha, {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
                            {names->beta, {CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE}},
                            {names->convolution, {CUDNN_TYPE_BACKEND_DESCRIPTOR}}};
    for (const int tensor : names->tensors) rules.push_back({tensor, {CUDNN_TYPE_BACKEND_DESCRIPTOR}});
    return rules;
  }
  switch (object.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return {{CUDNN_ATTR_TENSOR_UNIQUE_ID, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_TENSOR_DATA_TYPE, {CUDNN_TYPE_DATA_TYPE}},
              {CUDNN_ATTR_TENSOR_DIMENSIONS, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_TENSOR_STRIDES, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {CUDNN_TYPE_INT64}}};
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, {CUDNN_TYPE_DATA_TYPE}},
              {CUDNN_ATTR_CONVOLUTION_CONV_MODE, {CUDNN_TYPE_CONVOLUTION_MODE}},
              {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_CONVOLUTION_DILATIONS, {CUDNN_TYPE_INT64}}};
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, {CUDNN_TYPE_HANDLE}},
              {CUDNN_ATTR_OPERATIONGRAPH_OPS, {CUDNN_TYPE_BACKEND_DESCRIPTOR}}};
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {CUDNN_TYPE_BACKEND_DESCRIPTOR}},
              {CUDNN_ATTR_ENGINEHEUR_MODE, {CUDNN_TYPE_HEUR_MODE}}};
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, {CUDNN_TYPE_HANDLE}},
              {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {CUDNN_TYPE_BACKEND_DESCRIPTOR}}};
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {CUDNN_TYPE_INT64}},
              {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {CUDNN_TYPE_VOID_PTR}},
              {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {CUDNN_TYPE_VOID_PTR}}};
    default: return {};
  }
}

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_NUMERICAL_NOTE:
    case CUDNN_TYPE_FLOAT: return 4;
    default: return 8;
  }
}

// Returns a descriptor that must exist: the program must keep descriptors alive that others refer to.
CudnnObject& of(const void* descriptor, const char* api) {
  static CudnnObject none{};
  if (objects.contains(descriptor)) return *static_cast<CudnnObject*>(const_cast<void*>(descriptor));
  complain(std::string(api) + " of a descriptor that is gone");
  return none;
}

bool all_at_least(const CudnnObject& object, int name, std::int64_t least, std::int64_t count) {
  const auto values = object.all<std::int64_t>(name);
  return std::int64_t(values.size()) == count && std::ranges::all_of(values, [&](auto v) { return v >= least; });
}

cudnnStatus_t check_values(const CudnnObject& object) {
  if (names_of(object)) return check_convolution(object);
  switch (object.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {
      const std::int64_t rank = object.attributes.at(CUDNN_ATTR_TENSOR_DIMENSIONS).count;
      return all_at_least(object, CUDNN_ATTR_TENSOR_DIMENSIONS, 1, rank) &&
                     all_at_least(object, CUDNN_ATTR_TENSOR_STRIDES, 1, rank)
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    }
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: {
      const auto dims = object.get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
      const bool good = dims >= 2 && dims <= 3 &&
                        all_at_least(object, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, dims) &&
                        all_at_least(object, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, dims) &&
                        all_at_least(object, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, dims) &&
                        all_at_least(object, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0, dims);
      return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: may_wait_for_cards("cudnnBackendFinalize"); return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      may_wait_for_cards("cudnnBackendFinalize");
      const CudnnObject& configuration = object.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      if (configuration.engine == kNotReady) return CUDNN_STATUS_NOT_SUPPORTED;
      ++machine().cudnn_plans;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: {
      const auto names = object.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
      const auto data = object.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
      if (names.size() != data.size()) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
      return std::ranges::count(data, nullptr) ? CUDNN_STATUS_BAD_PARAM_NULL_POINTER : CUDNN_STATUS_SUCCESS;
    }
    default: return CUDNN_STATUS_SUCCESS;
  }
}

const CudnnObject& operation_of(const CudnnObject& plan) {
  const CudnnObject& graph =
      plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  return graph.child(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

std::vector<cudnnBackendNumericalNote_t> notes_of(int engine) {
  switch (engine) {
    case kNotDeterministic: return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case kRounds: return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    default: return {CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP};
  }
}

// The engines of a heuristics mode. The suitable engine is only in the second mode, which the program must try, too.
std::vector<int> engines_of(cudnnBackendHeurMode_t mode) {
  if (!machine().cudnn_engines) return {kNotDeterministic, kNotReady};
  return mode == CUDNN_HEUR_MODE_A ? std::vector{kNotDeterministic, kRounds, kNotReady} : std::vector{kGood};
}

template <class T>
cudnnStatus_t give(const std::vector<T>& values, std::int64_t most, std::int64_t* count, void* to) {
  *count = std::int64_t(values.size());
  if (most > 0) std::memcpy(to, values.data(), std::size_t(std::min(most, *count)) * sizeof(T));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t give_configurations(const CudnnObject& heuristics, std::int64_t most, std::int64_t* count, void* to) {
  const std::vector<int> engines = engines_of(heuristics.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
  *count = std::int64_t(engines.size());
  for (std::int64_t i = 0; i < std::min(most, *count); ++i) {
    CudnnObject& configuration = of(static_cast<void**>(to)[i], "cudnnBackendGetAttribute");
    if (configuration.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
    configuration.engine = engines[std::size_t(i)];
    configuration.finalized = true;
    configuration.attributes = {
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, heuristics.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)}};
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t execute(cudnnHandle_t handle, const CudnnObject& plan, const CudnnObject& pack) {
  const CudnnObject operation = operation_of(plan);
  const ConvolutionNames& names = *names_of(operation);
  const auto given = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::array<void*, 3> data = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const CudnnObject& tensor = of(operation.get<void*>(names.tensors[i]), "cudnnBackendExecute");
    const auto found = std::ranges::find(given, tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    if (found == given.end()) return CUDNN_STATUS_BAD_PARAM;
    data[i] = pointers[std::size_t(found - given.begin())];
    const auto alignment = std::uintptr_t(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
    if (reinterpret_cast<std::uintptr_t>(data[i]) % alignment != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    expect_memory("cudnnBackendExecute", data[i], extent_of(tensor), handle->card);
  }
  void* const workspace = pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  expect_memory("cudnnBackendExecute", workspace, std::size_t(kWorkspaceBytes), handle->card);
  const auto held = lock();  // several threads count
  machine().cudnn_engine = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine;
  use_kernel(&plan);
  ++machine().convolutions;
  if (machine().address_only) return CUDNN_STATUS_SUCCESS;
  // The plan lives until its work is done (the tests let the host wait first), and with it its descriptors.
  const cudaError_t result = enqueue(handle->stream, [operation, data, workspace] {
    std::memset(workspace, 0xab, std::size_t(kWorkspaceBytes));
    convolve(operation, data);
  });
  return result == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace lockstep::fake

using namespace lockstep::fake;

extern "C" {

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "a fake status"; }
void cudnnGetLastErrorString(char* message, std::size_t bytes) { std::strncpy(message, "its last words", bytes); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  may_wait_for_cards("cudnnCreate");
  if (machine().cudnn_create) return cudnnStatus_t(machine().cudnn_create);
  *handle = new cudnnContext;
  cudaGetDevice(&(*handle)->card);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return delete handle, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return handle->stream = stream, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  const auto held = lock();
  *descriptor = new CudnnObject{.type = type};
  objects.insert(*descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const auto held = lock();
  const CudnnObject& object = of(descriptor, "cudnnBackendDestroyDescriptor");
  if (objects.erase(descriptor)) delete &object;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  const auto held = lock();
  CudnnObject& object = of(descriptor, "cudnnBackendSetAttribute");
  if (object.finalized) return CUDNN_STATUS_BAD_PARAM;
  const std::vector<Rule> rules = rules_of(object);
  const auto rule = std::ranges::find(rules, int(name), &Rule::name);
  if (rule == rules.end() || !std::ranges::count(rule->types, type) || count < 1) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
      !of(*static_cast<void* const*>(values), "cudnnBackendSetAttribute").finalized)
    return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const char* const begin = static_cast<const char*>(values);
  object.attributes[name] = {type, count, {begin, begin + std::size_t(count) * bytes_of(type)}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const auto held = lock();
  CudnnObject& object = of(descriptor, "cudnnBackendFinalize");
  for (const Rule& rule : rules_of(object)) {
    if (!object.has(rule.name)) {
      complain("a descriptor without attribute " + std::to_string(rule.name));
      return CUDNN_STATUS_BAD_PARAM;
    }
    if (rule.types.front() == CUDNN_TYPE_BACKEND_DESCRIPTOR) of(object.get<void*>(rule.name), "cudnnBackendFinalize");
  }
  const cudnnStatus_t result = check_values(object);
  object.finalized = result == CUDNN_STATUS_SUCCESS;
  return result;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t most, std::int64_t* count,
                                       void* values) {
  const auto held = lock();
  const CudnnObject& object = of(descriptor, "cudnnBackendGetAttribute");
  if (!object.finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return give_configurations(object, most, count, values);
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR && most == 1) {
    CudnnObject& engine = of(*static_cast<void**>(values), "cudnnBackendGetAttribute");
    engine.engine = object.engine;
    engine.finalized = true;
    return *count = 1, CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE)
    return give(notes_of(object.engine), most, count, values);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64)
    return give(std::vector{kWorkspaceBytes}, most, count, values);
  return CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const auto held = lock();
  int card = -1;
  cudaGetDevice(&card);
  if (card != handle->card) complain("a handle of another card than the current");
  const CudnnObject& ready = of(plan, "cudnnBackendExecute");
  const CudnnObject& operands = of(pack, "cudnnBackendExecute");
  if (!ready.finalized || !operands.finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (ready.get<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle) return CUDNN_STATUS_BAD_PARAM;
  return execute(handle, ready, operands);
}

}  // extern "C"
