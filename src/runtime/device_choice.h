// Parses LOCKSTEP_DEVICES. Reads the environment only for options of CUDA.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/backend.h"

namespace lockstep {

/// "sim:N": N simulated GPUs; "cuda": all cards; "cuda:0,0,2": one device per number, on that card; "none": null; "":
/// all cards if there are any, else null. Throws InvalidArgument for any other choice, and BackendError if cards are
/// requested and no driver responds.
std::shared_ptr<Backend> choose_backend(std::string_view choice);

}  // namespace lockstep
