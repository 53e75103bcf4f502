// Every operation, for tests that go through them all.
#pragma once

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/autograd/gradcheck.h>
#include <lockstep/core/error.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/indexing.h>
#include <lockstep/tensor/random.h>
#include <lockstep/tensor/tensor.h>
