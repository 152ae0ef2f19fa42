// A program's own inputs and outputs beside those its package declares.
#pragma once

#include <executorch/runtime/executor/method_meta.h>

#include <span>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace reflexd {

/// Where they differ, in words that name the tensor.
std::vector<std::string> complaints_about(const executorch::runtime::MethodMeta& method,
                                          std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs);

}  // namespace reflexd
