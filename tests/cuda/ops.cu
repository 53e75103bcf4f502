// The kernels of ops that have few of them, whose PTX check_ptx reads. (Together, because headers take longer than these
// kernels.)
#include "ops/cross_entropy.cpp"
#include "ops/dropout.cpp"
#include "ops/group_norm.cpp"
#include "ops/runs.cpp"
