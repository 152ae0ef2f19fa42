// The runtime's element types and ours.
#pragma once

#include <executorch/runtime/core/portable_type/scalar_type.h>

#include <string>

#include "tensor.hpp"

namespace reflexd {

executorch::runtime::etensor::ScalarType scalar_type(DType dtype);

/// "float32"; "scalar type 15" for one no package can have.
std::string name_of(executorch::runtime::etensor::ScalarType type);

}  // namespace reflexd
