// refused: Lockstep cannot find the tensors in this type. Add auto members()
#include <lockstep/lockstep.h>

struct Sample {
  lockstep::Tensor pixels;
  int label = 0;
};

auto batch_of(std::vector<Sample> samples, lockstep::data::SampleIndices indices) {
  return lockstep::data::DefaultCollate()(std::move(samples), indices);
}
