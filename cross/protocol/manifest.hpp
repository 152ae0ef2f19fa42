// The package manifest from its file's text.
#pragma once

#include <string_view>

#include "protocol.hpp"

namespace reflexd::protocol {

// The manifest in `json`, checked but for what its parts say of one another (daemon/package.py, _complaints).
// Throws Refused: too large, not JSON, another manifest_version, or not as declared.
Manifest parse_manifest(std::string_view json);

}  // namespace reflexd::protocol
