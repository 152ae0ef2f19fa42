// JSON as the bytes the generated decoders read.
#pragma once

#include <string>
#include <string_view>

namespace reflexd::protocol {

// Keeps every pair of an object, also of two with the same key: both are to be checked. Throws Refused "not JSON: ...".
std::string json_to_msgpack(std::string_view json);

}  // namespace reflexd::protocol
