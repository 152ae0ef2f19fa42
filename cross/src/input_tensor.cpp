#include "input_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "failure.hpp"
#include "scalar_type.hpp"

namespace reflexd {

InputTensor::InputTensor(TensorSpec declared)
    : spec_(std::move(declared)),
      sizes_(spec_.shape.begin(), spec_.shape.end()),
      dim_order_(sizes_.size()),
      strides_(sizes_.size()),
      tensor_(scalar_type(spec_.dtype), static_cast<ssize_t>(sizes_.size()), sizes_.data(), nullptr, dim_order_.data(),
              strides_.data()) {
  std::int32_t stride = 1;
  for (std::size_t axis = sizes_.size(); axis-- > 0;) {
    dim_order_[axis] = static_cast<std::uint8_t>(axis);
    strides_[axis] = stride;
    stride *= sizes_[axis];
  }
}

void InputTensor::point_at(const TensorView& view) {
  if (view.dtype != spec_.dtype || !std::ranges::equal(view.shape, spec_.shape)) {
    throw RuntimeFailure(protocol::Drop::malformed, "input " + spec_.name + ": expected " + spec_.text() + ", got " +
                                                        type_text(view.dtype, view.shape));
  }
  const std::byte* data = view.data;
  if (reinterpret_cast<std::uintptr_t>(data) % protocol::item_bytes(view.dtype) != 0) {
    aligned_.resize(spec_.bytes);
    std::memcpy(aligned_.data(), data, spec_.bytes);
    data = aligned_.data();
  }
  // The runtime's tensors have no constant data, but a method only reads its inputs: the ring is mapped read-only.
  tensor_.set_data(const_cast<std::byte*>(data));
}

}  // namespace reflexd
