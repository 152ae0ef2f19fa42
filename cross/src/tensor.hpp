// Tensors as the worker sees them: dense, C-contiguous, of one of the types a package may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol.hpp"

namespace reflexd {

using protocol::DType;

/// Bytes of a tensor of this shape, or nothing if they are beyond counting.
std::optional<std::size_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) noexcept;

/// "uint8 [1, 2, 16, 16]".
std::string type_text(DType dtype, std::span<const std::int64_t> shape);

/// An input or output as a package declares it.
struct TensorSpec {
  std::string name;
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;

  [[nodiscard]] std::string text() const { return type_text(dtype, shape); }
};

/// A tensor in somebody else's memory.
struct TensorView {
  DType dtype = DType::uint8;
  std::span<const std::int64_t> shape;
  const std::byte* data = nullptr;
};

}  // namespace reflexd
