// Custom optimizers: a struct of options, a rule that updates one element, and a class that declares the state of the
// rule. docs/extending.md and examples/custom_optimizer.cpp show one.
//
// The library does the rest: groups, state dicts, schedules, clipping, float32 master weights of 16-bit parameters, and
// models on several devices, each of which takes the same step. Compile the source with lockstep_kernels(target EXACT
// ...): the rule then also runs on GPUs, and is compiled without FMA contraction, so that replicas stay bit-identical
// although their elements have different positions in memory.
#pragma once

#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/rule.h>
