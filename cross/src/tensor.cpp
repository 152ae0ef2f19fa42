#include "tensor.hpp"

#include "format.hpp"

namespace reflexd {

std::optional<std::size_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) noexcept {
  std::size_t bytes = protocol::item_bytes(dtype);
  for (const std::int64_t side : shape) {
    if (side < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(side), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

std::string type_text(DType dtype, std::span<const std::int64_t> shape) {
  return std::string(to_string(dtype)) + " " + list_text(shape);
}

}  // namespace reflexd
