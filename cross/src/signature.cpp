#include "signature.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "format.hpp"
#include "scalar_type.hpp"

namespace reflexd {
namespace {

using executorch::runtime::MethodMeta;
using executorch::runtime::Result;
using executorch::runtime::TensorInfo;

std::string complaint(const char* kind, const TensorSpec& spec, const Result<TensorInfo>& found) {
  const std::string start = std::string(kind) + " " + spec.name + ": ";
  if (!found.ok()) {
    return start + "the manifest says " + spec.text() + ", the program has no tensor there";
  }
  const std::vector<std::int64_t> shape(found->sizes().begin(), found->sizes().end());
  if (found->scalar_type() != scalar_type(spec.dtype) || shape != spec.shape) {
    return start + "the manifest says " + spec.text() + ", the program " + name_of(found->scalar_type()) + " " +
           list_text(shape);
  }
  const auto order = found->dim_order();
  if (!std::is_sorted(order.begin(), order.end())) {
    const std::vector<std::int64_t> axes(order.begin(), order.end());
    return start + "the program wants its axes in the order " + list_text(axes) +
           " in memory: exported from an example that was not contiguous";
  }
  return "";
}

template <typename Meta>
void compare(const char* kind, std::size_t count, std::span<const TensorSpec> specs, Meta meta,
             std::vector<std::string>& complaints) {
  if (count != specs.size()) {
    complaints.push_back("has " + std::to_string(count) + " " + kind + "s, the manifest declares " +
                         std::to_string(specs.size()));
    return;
  }
  for (std::size_t index = 0; index < count; ++index) {
    if (std::string text = complaint(kind, specs[index], meta(index)); !text.empty()) {
      complaints.push_back(std::move(text));
    }
  }
}

}  // namespace

std::vector<std::string> complaints_about(const MethodMeta& method, std::span<const TensorSpec> inputs,
                                          std::span<const TensorSpec> outputs) {
  std::vector<std::string> complaints;
  compare(
      "input", method.num_inputs(), inputs, [&](std::size_t at) { return method.input_tensor_meta(at); }, complaints);
  compare(
      "output", method.num_outputs(), outputs, [&](std::size_t at) { return method.output_tensor_meta(at); },
      complaints);
  return complaints;
}

}  // namespace reflexd
