// The fused sequences; each has its own file.
#pragma once

#include "ops/recurrent/sequence.h"

namespace lockstep::recurrent {

Outputs run_rnn_tanh(const Inputs& inputs, const Steps& steps);
Outputs run_rnn_relu(const Inputs& inputs, const Steps& steps);
Outputs run_gru(const Inputs& inputs, const Steps& steps);
Outputs run_lstm(const Inputs& inputs, const Steps& steps);  ///< Without weight_hr.

}  // namespace lockstep::recurrent
