#include <algorithm>

#include <lockstep/core/float16.h>

#include "cuda/fake/fake_cudnn.h"

namespace lockstep::fake {
namespace {

using Sizes = std::vector<std::int64_t>;

std::size_t bytes_of(cudnnDataType_t type) { return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2; }

bool is_floating(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF ||
         type == CUDNN_DATA_BFLOAT16;
}

Sizes sizes_of(const CudnnObject& tensor) { return tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS); }
Sizes strides_of(const CudnnObject& tensor) { return tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES); }

// Returns dense strides; `order` lists the dimensions from the outermost in memory to the innermost.
Sizes dense(const Sizes& sizes, const std::vector<std::size_t>& order) {
  Sizes strides(sizes.size());
  std::int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[*dim] = stride;
    stride *= sizes[*dim];
  }
  return strides;
}

bool has_layout(const CudnnObject& tensor, bool channels_last) {
  std::vector<std::size_t> order(sizes_of(tensor).size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (channels_last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return strides_of(tensor) == dense(sizes_of(tensor), order);
}

double read(const void* data, cudnnDataType_t type, std::int64_t at) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return static_cast<const double*>(data)[at];
    case CUDNN_DATA_FLOAT: return double(static_cast<const float*>(data)[at]);
    case CUDNN_DATA_HALF: return double(float(static_cast<const Half*>(data)[at]));
    default: return double(float(static_cast<const BFloat16*>(data)[at]));
  }
}

void write(void* data, cudnnDataType_t type, std::int64_t at, double value) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: static_cast<double*>(data)[at] = value; return;
    case CUDNN_DATA_FLOAT: static_cast<float*>(data)[at] = float(value); return;
    case CUDNN_DATA_HALF: static_cast<Half*>(data)[at] = Half(float(value)); return;
    default: static_cast<BFloat16*>(data)[at] = BFloat16(float(value)); return;
  }
}

// Calls body with every index below the sizes.
template <class Body>
void for_each_index(const Sizes& sizes, Body body) {
  Sizes index(sizes.size(), 0);
  for (;;) {
    body(index);
    std::size_t dim = sizes.size();
    while (dim > 0 && ++index[dim - 1] == sizes[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

std::int64_t place(const Sizes& index, const Sizes& strides) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < index.size(); ++i) at += index[i] * strides[i];
  return at;
}

}  // namespace

const ConvolutionNames* names_of(const CudnnObject& operation) {
  static const ConvolutionNames kForward{
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      2};
  static const ConvolutionNames kData{
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      0};
  static const ConvolutionNames kFilter{
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
      1};
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: return &kForward;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR: return &kData;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: return &kFilter;
    default: return nullptr;
  }
}

std::size_t extent_of(const CudnnObject& tensor) {
  const Sizes sizes = sizes_of(tensor), strides = strides_of(tensor);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  return std::size_t(last + 1) * bytes_of(tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE));
}

cudnnStatus_t check_convolution(const CudnnObject& operation) {
  const ConvolutionNames& names = *names_of(operation);
  const CudnnObject& convolution = operation.child(names.convolution);
  const std::array tensors{&operation.child(names.tensors[0]), &operation.child(names.tensors[1]),
                           &operation.child(names.tensors[2])};
  const auto type = tensors[0]->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const auto compute = convolution.get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  if (!is_floating(type) || compute != (type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return CUDNN_STATUS_NOT_SUPPORTED;
  for (const int scale : {names.alpha, names.beta}) {
    const bool is_double = operation.attributes.at(scale).type == CUDNN_TYPE_DOUBLE;
    const double value = is_double ? operation.get<double>(scale) : double(operation.get<float>(scale));
    if (is_double != (compute == CUDNN_DATA_DOUBLE)) return CUDNN_STATUS_BAD_PARAM;
    if (value != (scale == names.alpha ? 1 : 0)) complain("a convolution that is scaled");
  }
  const auto stride = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto before = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto after = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  const auto dilation = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  const Sizes x = sizes_of(*tensors[0]), w = sizes_of(*tensors[1]), y = sizes_of(*tensors[2]);
  const bool channels_last = has_layout(*tensors[0], true) && has_layout(*tensors[2], true);
  for (const CudnnObject* tensor : tensors) {
    if (tensor->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) != type) return CUDNN_STATUS_NOT_SUPPORTED;
    if (sizes_of(*tensor).size() != stride.size() + 2) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    if (!has_layout(*tensor, channels_last)) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
    if (tensor->get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) < 16) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (x[0] != y[0] || x[1] % w[1] != 0 || w[0] != y[1] || w[0] % (x[1] / w[1]) != 0)
    return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  for (std::size_t i = 0; i < stride.size(); ++i) {
    const std::int64_t window = dilation[i] * (w[i + 2] - 1) + 1;
    if (y[i + 2] != (x[i + 2] + before[i] + after[i] - window) / stride[i] + 1)
      return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  }
  return CUDNN_STATUS_SUCCESS;
}

// Each product of a convolution has one element of x, of w and of y: two are multiplied and added to the third.
void convolve(const CudnnObject& operation, const std::array<void*, 3>& data) {
  const ConvolutionNames& names = *names_of(operation);
  const CudnnObject& convolution = operation.child(names.convolution);
  const auto stride = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto padding = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto dilation = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  std::array<Sizes, 3> sizes, strides;
  int layouts = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    sizes[i] = sizes_of(operation.child(names.tensors[i]));
    strides[i] = strides_of(operation.child(names.tensors[i]));
    layouts |= int(has_layout(operation.child(names.tensors[i]), true)) << i;
  }
  machine().cudnn_layouts = layouts;
  const auto type = operation.child(names.tensors[0]).get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const std::int64_t groups = sizes[0][1] / sizes[1][1];
  std::map<std::int64_t, double> sums;
  for_each_index(sizes[names.written], [&](const Sizes& index) { sums[place(index, strides[names.written])] = 0; });
  const std::size_t one = names.written == 0 ? 1 : 0, other = names.written == 2 ? 1 : 2;
  for_each_index(sizes[2], [&](const Sizes& y) {
    for_each_index(sizes[1], [&](const Sizes& w) {
      if (w[0] != y[1]) return;
      Sizes x{y[0], y[1] / (sizes[2][1] / groups) * sizes[1][1] + w[1]};
      for (std::size_t i = 0; i < stride.size(); ++i) {
        x.push_back(y[i + 2] * stride[i] - padding[i] + w[i + 2] * dilation[i]);
        if (x.back() < 0 || x.back() >= sizes[0][i + 2]) return;
      }
      const std::array at{place(x, strides[0]), place(w, strides[1]), place(y, strides[2])};
      sums[at[names.written]] += read(data[one], type, at[one]) * read(data[other], type, at[other]);
    });
  });
  for (const auto& [at, sum] : sums) write(data[names.written], type, at, sum);
}

}  // namespace lockstep::fake
