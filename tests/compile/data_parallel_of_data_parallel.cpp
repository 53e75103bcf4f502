// refused: the module is a DataParallel already
#include <lockstep/nn/layers.h>
#include <lockstep/parallel/data_parallel.h>

void wrap(lockstep::DataParallel<lockstep::nn::Linear> model) {
  lockstep::DataParallel<lockstep::DataParallel<lockstep::nn::Linear>> twice(std::move(model));
}
