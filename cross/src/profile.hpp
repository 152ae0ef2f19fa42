// A profile of inferences in ExecuTorch's own format, for `executorch.devtools.Inspector` on the host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "package.hpp"
#include "tensor.hpp"

namespace reflexd {

/// Loads the package once more with the runtime's tracer, runs a few inferences and writes the ETDump to `file`.
/// @throws RuntimeFailure, std::system_error
void write_profile(const Package& package, std::span<const TensorView> inputs, std::uint32_t threads,
                   const std::filesystem::path& file);

}  // namespace reflexd
