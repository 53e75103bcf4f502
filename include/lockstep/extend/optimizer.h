// Optimizers of one's own: a struct of options, a rule that updates one element, and a class that says which state the
// rule has. docs/extending.md shows one, examples/custom_optimizer.cpp is one.
//
// The rest is the library's: groups, state dicts, schedules, clipping, float32 masters of 16-bit parameters, and models
// on several devices, each of which takes the same step. Compile the source with lockstep_kernels(target EXACT ...):
// the rule then runs on GPUs too, and without fused operations that are not written, so that replicas stay
// bit-identical wherever an element stands in memory.
#pragma once

#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/rule.h>
