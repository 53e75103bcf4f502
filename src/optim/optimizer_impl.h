// What an optimizer holds: its groups, and for each parameter the state in each of its places.
#pragma once

#include <string>
#include <vector>

#include <lockstep/optim/optimizer.h>

#include "optim/batch.h"

namespace lockstep::optim {

/// The state of a parameter on one device.
using PlaceState = std::array<Tensor, kMaxSlots>;

struct ParameterState {
  std::int64_t step = 0;                          ///< Steps taken.
  double number = 1;                              ///< See Optimizer::number_name.
  std::array<std::int64_t, kMaxSlots> born = {};  ///< The step that a slot was made in; 0 for a loaded one.
  std::vector<PlaceState> places;                 ///< In the order of the parameter's places.
};

struct ParameterGroup {
  std::vector<Tensor> parameters;
  std::vector<ParameterState> states;
  std::size_t first = 0;  ///< The index of its first parameter among those of all groups.
};

struct Optimizer::Impl {
  const char* name;
  std::vector<ParameterGroup> groups;
};

/// State that is to be made.
struct SlotRequest {
  Tensor* into;
  const Tensor* like;  ///< The parameter in that place.
  std::size_t slot;
  double initial;
};

/// Makes state beside the parameters, filled with its initial value: one array for each device, dtype and slot, laid
/// out as the parameters are, so that what lies together there lies together here.
void make_slots(std::vector<SlotRequest> requests);

/// The dtype of state for a parameter: the one that its arithmetic happens in.
inline DType state_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

}  // namespace lockstep::optim
