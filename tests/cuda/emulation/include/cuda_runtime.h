// Found before CUDA's own header when g++ compiles kernels for an emulated GPU: adds nvcc's built-ins.
#pragma once
#pragma GCC system_header  // a system header may use #include_next

#include_next <cuda_runtime.h>

#include "cuda/emulation/device_code.h"
#include "cuda/emulation/warp_matrix.h"
