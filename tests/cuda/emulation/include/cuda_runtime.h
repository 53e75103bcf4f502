// Found before CUDA's own header when kernels are compiled by g++ for an emulated GPU: adds what nvcc knows by itself.
#pragma once
#pragma GCC system_header  // which may use #include_next

#include_next <cuda_runtime.h>

#include "cuda/emulation/device_code.h"
