// The kernels of ops that have few of them; check_ptx reads their PTX. (In one file, because the headers take longer to
// compile than these kernels.)
#include "ops/cross_entropy.cpp"
#include "ops/dropout.cpp"
#include "ops/group_norm.cpp"
#include "ops/index_slices.cpp"
