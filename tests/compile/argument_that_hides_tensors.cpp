// refused: Lockstep cannot find the tensors in this type. Add auto members()
#include <lockstep/lockstep.h>

struct Batch {
  lockstep::Tensor ids, mask;
};

struct Net : lockstep::nn::Module<Net> {
  lockstep::Tensor forward(const Batch& batch) { return batch.ids; }
};

lockstep::Tensor run(lockstep::DataParallel<Net>& model, const Batch& batch) { return model(batch); }
