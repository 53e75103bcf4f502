#pragma once

#include <lockstep/optim/rule.h>

#include "optim/replicas.h"
