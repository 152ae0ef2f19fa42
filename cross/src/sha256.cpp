#include "sha256.hpp"

#include <mbedtls/md.h>

#include <array>
#include <stdexcept>
#include <string_view>

namespace reflexd {

std::string sha256_hex(std::span<const std::byte> data) {
  std::array<unsigned char, 32> hash{};
  const mbedtls_md_info_t* info = mbedtls_md_info_from_type(MBEDTLS_MD_SHA256);
  const auto* input = reinterpret_cast<const unsigned char*>(data.data());
  if (info == nullptr || mbedtls_md(info, input, data.size(), hash.data()) != 0) {
    throw std::runtime_error("SHA-256 is not available in this build of mbedtls");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * hash.size());
  for (const unsigned char byte : hash) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace reflexd
