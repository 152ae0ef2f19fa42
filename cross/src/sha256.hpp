// SHA-256, as the manifest pins files with it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace reflexd {

/// Hash of `data` in 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> data);

}  // namespace reflexd
