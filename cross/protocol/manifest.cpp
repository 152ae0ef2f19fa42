#include "manifest.hpp"

#include <string>

#include "json.hpp"

namespace reflexd::protocol {

Manifest parse_manifest(std::string_view json) {
  if (json.size() > kMaxManifestBytes) {
    throw Refused(std::to_string(json.size()) + " bytes; a manifest has " + std::to_string(kMaxManifestBytes) +
                  " at most");
  }
  const std::string packed = json_to_msgpack(json);
  return decode_manifest(std::as_bytes(std::span(packed)));
}

}  // namespace reflexd::protocol
