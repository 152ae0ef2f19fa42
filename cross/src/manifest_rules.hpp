// What a schema cannot say: parts of a manifest that must agree with one another.
#pragma once

#include <string>
#include <vector>

#include "protocol.hpp"

namespace reflexd {

/// Everything that disagrees, in words that name the field; the same as daemon/package.py finds.
std::vector<std::string> complaints_about(const protocol::Manifest& manifest);

}  // namespace reflexd
