#include "backends/cuda/cudnn/convolution.h"

#include "core/channels_last.h"

namespace lockstep::gpu {
namespace {

constexpr std::array kRoles{Role::image, Role::window, Role::result};

// Returns, for each role in order (image, window, result), the index of its operand in the FusedOp.
std::array<int, 3> operands_of(FusedKind kind) {
  switch (kind) {
    case FusedKind::convolution: return {0, 1, 3};
    case FusedKind::convolution_input_gradient: return {2, 1, 0};
    default: return {0, 2, 1};  // convolution_weight_gradient
  }
}

bool is_convolution(FusedKind kind) {
  return kind == FusedKind::convolution || kind == FusedKind::convolution_input_gradient ||
         kind == FusedKind::convolution_weight_gradient;
}

struct Types {
  cudnnDataType_t elements, compute;
};

std::optional<Types> types_of(DType dtype) {
  switch (dtype) {
    case kFloat16: return Types{CUDNN_DATA_HALF, CUDNN_DATA_FLOAT};
    case kBFloat16: return Types{CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT};
    case kFloat32: return Types{CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};
    case kFloat64: return Types{CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE};
    default: return std::nullopt;
  }
}

// Returns true if `strides` equals `dense`, except for dimensions of size 1, whose strides do not matter.
bool has_strides(const Shape& sizes, const Shape& strides, const Shape& dense) {
  for (int dim = 0; dim < sizes.rank(); ++dim)
    if (sizes[dim] != 1 && strides[dim] != dense[dim]) return false;
  return true;
}

bool is_channels_last_only(const ConvolutionTensor& tensor) {
  return has_strides(tensor.sizes, tensor.strides, channels_last_strides(tensor.sizes)) &&
         !has_strides(tensor.sizes, tensor.strides, contiguous_strides(tensor.sizes));
}

// If the shape has fewer than `rank` dimensions, inserts `value` at `dim`: the height of a one-dimensional convolution.
void add_height(Shape& shape, int dim, std::int64_t value, int rank) {
  if (shape.rank() < rank) shape.insert(dim, value);
}

CudnnDescriptor tensor_descriptor(const Convolution& convolution, Role role, int device) {
  CudnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, device);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t(role) + 1);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, types_of(convolution.dtype)->elements);
  made.set_all(CUDNN_ATTR_TENSOR_DIMENSIONS, convolution[role].sizes);
  made.set_all(CUDNN_ATTR_TENSOR_STRIDES, convolution.dense_strides(role));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Convolution::kAlignment);
  return made;
}

CudnnDescriptor convolution_descriptor(const Convolution& convolution, int device) {
  CudnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, device);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, types_of(convolution.dtype)->compute);
  made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t(convolution.stride.rank()));
  made.set_all(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, convolution.stride);
  made.set_all(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, convolution.padding);
  made.set_all(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, convolution.padding);
  made.set_all(CUDNN_ATTR_CONVOLUTION_DILATIONS, convolution.dilation);
  return made;
}

// cuDNN's name of the operation of a FusedKind, and of its attributes.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution;
  std::array<cudnnBackendAttributeName_t, 3> tensors;  // by role
};

Operation operation_of(FusedKind kind) {
  switch (kind) {
    case FusedKind::convolution:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}};
    case FusedKind::convolution_input_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};
  }
}

}  // namespace

Role Convolution::written() const {
  if (kind == FusedKind::convolution) return Role::result;
  return kind == FusedKind::convolution_input_gradient ? Role::image : Role::window;
}

Shape Convolution::dense_strides(Role role) const {
  const Shape& sizes = (*this)[role].sizes;
  return channels_last ? channels_last_strides(sizes) : contiguous_strides(sizes);
}

// The number of groups is not in the key, because it follows from the sizes.
std::vector<std::int64_t> Convolution::key() const {
  std::vector<std::int64_t> key{std::int64_t(kind), std::int64_t(dtype), channels_last, stride.rank()};
  const auto add = [&key](const Shape& shape) { key.insert(key.end(), shape.begin(), shape.end()); };
  for (const ConvolutionTensor& tensor : tensors) add(tensor.sizes);
  for (const Shape* shape : {&stride, &padding, &dilation}) add(*shape);
  return key;
}

Convolution in_layout(Convolution convolution, const FusedOp& op, bool channels_last) {
  convolution.channels_last = channels_last;
  for (const Role role : kRoles) {
    ConvolutionTensor& tensor = convolution[role];
    const auto address = reinterpret_cast<std::uintptr_t>(op.operands[std::size_t(tensor.operand)].data);
    tensor.in_place = has_strides(tensor.sizes, tensor.strides, convolution.dense_strides(role)) &&
                      address % Convolution::kAlignment == 0;
  }
  return convolution;
}

std::optional<Convolution> describe_convolution(const FusedOp& op) {
  const int spatial = op.stride.rank();
  if (!is_convolution(op.kind) || spatial < 1 || spatial > 3) return std::nullopt;
  const int rank = spatial == 1 ? 4 : spatial + 2;
  Convolution convolution{.kind = op.kind, .stride = op.stride, .padding = op.padding, .dilation = op.dilation};
  add_height(convolution.stride, 0, 1, rank - 2);
  add_height(convolution.padding, 0, 0, rank - 2);
  add_height(convolution.dilation, 0, 1, rank - 2);
  const std::array<int, 3> operands = operands_of(op.kind);
  convolution.dtype = op.operands[std::size_t(operands[0])].dtype;
  if (!types_of(convolution.dtype)) return std::nullopt;
  for (const Role role : kRoles) {
    const int place = operands[std::size_t(role)];
    const FusedOperand& operand = op.operands[std::size_t(place)];
    if (!operand.present || operand.dtype != convolution.dtype || operand.sizes.rank() != spatial + 2 ||
        operand.sizes.elements() == 0)
      return std::nullopt;
    ConvolutionTensor& tensor = convolution[role];
    tensor = {.sizes = operand.sizes, .strides = operand.strides, .operand = place};
    add_height(tensor.sizes, 2, 1, rank);
    add_height(tensor.strides, 2, 1, rank);
  }
  if (op.kind == FusedKind::convolution && op.operands[2].present) {
    if (op.operands[2].dtype != convolution.dtype) return std::nullopt;
    convolution.bias = 2;
  }
  return in_layout(convolution, op,
                   is_channels_last_only(convolution[Role::image]) || is_channels_last_only(convolution[Role::result]));
}

std::optional<CudnnGraph> make_convolution_graph(const Convolution& convolution, cudnnHandle_t handle, int device) {
  const Operation names = operation_of(convolution.kind);
  std::vector<CudnnDescriptor> parts;
  for (const Role role : kRoles) parts.push_back(tensor_descriptor(convolution, role, device));
  parts.push_back(convolution_descriptor(convolution, device));
  for (CudnnDescriptor& part : parts)
    if (!part.finalize()) return std::nullopt;
  CudnnDescriptor operation(names.type, device);
  for (const Role role : kRoles) operation.set(names.tensors[std::size_t(role)], parts[std::size_t(role)]);
  operation.set(names.convolution, parts.back());
  const auto scale = [&]<class T>(T) {
    operation.set(names.alpha, T(1));
    operation.set(names.beta, T(0));
  };
  convolution.dtype == kFloat64 ? scale(double()) : scale(float());
  if (!operation.finalize()) return std::nullopt;
  parts.push_back(std::move(operation));
  return make_graph(std::move(parts), handle, device);
}

}  // namespace lockstep::gpu
