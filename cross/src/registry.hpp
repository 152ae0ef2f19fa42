// What this build of the runtime can run.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace reflexd {

/// Names of the backends that are linked in and can start here.
std::vector<std::string> usable_backends();

/// What of these the runtime lacks, by name: "operator aten::…", "backend …".
std::vector<std::string> missing_parts(std::span<const std::string> operators, std::span<const std::string> backends);

}  // namespace reflexd
