// An input of a model as the runtime wants it: built once, then only pointed at data.
#pragma once

#include <executorch/runtime/core/evalue.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor.hpp"

namespace reflexd {

class InputTensor {
 public:
  explicit InputTensor(TensorSpec declared);
  ~InputTensor() = default;
  InputTensor(const InputTensor&) = delete;
  InputTensor& operator=(const InputTensor&) = delete;
  InputTensor(InputTensor&&) = delete;
  InputTensor& operator=(InputTensor&&) = delete;

  /// Points the tensor at `view`, whose memory stays as it is until the inference is done; data that is not aligned to
  /// its elements is copied.
  /// @throws RuntimeFailure `malformed`: it is of another type or shape than declared.
  void point_at(const TensorView& view);

  /// What the runtime is given; it refers to this tensor.
  [[nodiscard]] executorch::runtime::EValue value() { return executorch::runtime::etensor::Tensor(&tensor_); }

 private:
  TensorSpec spec_;
  std::vector<std::int32_t> sizes_;
  std::vector<std::uint8_t> dim_order_;
  std::vector<std::int32_t> strides_;
  std::vector<std::byte> aligned_;
  executorch::runtime::etensor::TensorImpl tensor_;
};

}  // namespace reflexd
