#include "loaded_model.hpp"

#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "errors.hpp"
#include "failure.hpp"
#include "format.hpp"
#include "registry.hpp"

namespace reflexd {
namespace {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::TensorInfo;
using executorch::runtime::etensor::ScalarType;
using executorch::runtime::etensor::Tensor;
using protocol::Drop;

constexpr const char* kMethod = "forward";
constexpr const char* kLoadingMethod = "loading method forward";
constexpr std::string_view kIdentifier = "ET12";  // bytes 4 to 8 of every program this runtime reads

ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return ScalarType::Byte;
    case DType::int32:
      return ScalarType::Int;
    case DType::int64:
      return ScalarType::Long;
    case DType::float32:
      return ScalarType::Float;
  }
  return ScalarType::Undefined;
}

std::string name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    default:
      return "scalar type " + std::to_string(static_cast<int>(type));
  }
}

void require(Error error, const std::string& doing) {
  if (error != Error::Ok) {
    throw RuntimeFailure(Drop::model_error, doing + ": " + in_words(error));
  }
}

template <typename T>
T taken(Result<T> result, const std::string& doing) {
  require(result.error(), doing);
  return std::move(result.get());
}

/// A foreign identifier can abort the process inside the runtime, so it is looked at first.
void check_identifier(std::span<const std::byte> program) {
  const auto found = program.subspan(std::min<std::size_t>(4, program.size()));
  const auto identifier = found.first(std::min(kIdentifier.size(), found.size()));
  if (identifier.size() != kIdentifier.size() ||
      std::memcmp(identifier.data(), kIdentifier.data(), kIdentifier.size()) != 0) {
    throw RuntimeFailure(Drop::model_error, std::string(protocol::kModelFile) + ": bytes 4-8 are " +
                                                bytes_text(identifier) + ", expected b'" + std::string(kIdentifier) +
                                                "': not a program");
  }
}

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

template <typename Specs, typename Meta>
void compare(const char* kind, std::size_t count, const Specs& specs, Meta meta, std::vector<std::string>& complaints) {
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

std::vector<std::string> method_names(const Program& program) {
  std::vector<std::string> names;
  for (std::size_t index = 0; index < program.num_methods(); ++index) {
    const auto name = program.get_method_name(index);
    names.emplace_back(name.ok() ? *name : "?");
  }
  return names;
}

}  // namespace

LoadedModel::Input::Input(TensorSpec declared)
    : spec(std::move(declared)),
      sizes(spec.shape.begin(), spec.shape.end()),
      dim_order(sizes.size()),
      strides(sizes.size()),
      tensor(scalar_type(spec.dtype), static_cast<ssize_t>(sizes.size()), sizes.data(), nullptr, dim_order.data(),
             strides.data()) {
  std::int32_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    dim_order[axis] = static_cast<std::uint8_t>(axis);
    strides[axis] = stride;
    stride *= sizes[axis];
  }
}

void LoadedModel::Input::point_at(const TensorView& view) {
  if (view.dtype != spec.dtype || !std::ranges::equal(view.shape, spec.shape)) {
    throw RuntimeFailure(Drop::malformed, "input " + spec.name + ": expected " + spec.text() + ", got " +
                                              type_text(view.dtype, view.shape));
  }
  const std::byte* data = view.data;
  if (reinterpret_cast<std::uintptr_t>(data) % protocol::item_bytes(view.dtype) != 0) {
    aligned.resize(spec.bytes);
    std::memcpy(aligned.data(), data, spec.bytes);
    data = aligned.data();
  }
  // The runtime's tensors have no constant data, but a method only reads its inputs: the ring is mapped read-only.
  tensor.set_data(const_cast<std::byte*>(data));
}

LoadedModel::LoadedModel(FileBytes program, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                         std::uint32_t threads, executorch::runtime::EventTracer* tracer)
    : threads_(threads), loader_(std::move(program)), outputs_(std::move(outputs)) {
  executorch::runtime::runtime_init();
  const ThreadShare::Use use(threads_);
  load_program();
  load_method(tracer);
  compare_with_declarations(inputs);
  build_tensors(std::move(inputs));
  loader_.finish();
}

void LoadedModel::load_program() {
  check_identifier(loader_.bytes());
  const std::string doing = "loading " + std::string(protocol::kModelFile);
  program_.emplace(taken(Program::load(&loader_, Program::Verification::InternalConsistency), doing));
  const std::vector<std::string> names = method_names(*program_);
  if (std::find(names.begin(), names.end(), kMethod) == names.end()) {
    const auto shown = std::span(names).first(std::min<std::size_t>(names.size(), 8));
    throw RuntimeFailure(Drop::model_error, std::string(protocol::kModelFile) + ": expected a method " + kMethod +
                                                ", found " + list_text(shown));
  }
}

void LoadedModel::load_method(executorch::runtime::EventTracer* tracer) {
  const MethodMeta meta = taken(program_->method_meta(kMethod), kLoadingMethod);
  std::vector<std::string> backends;
  for (std::size_t index = 0; index < meta.num_backends(); ++index) {
    backends.emplace_back(taken(meta.get_backend_name(index), kLoadingMethod));
  }
  if (const auto missing = missing_parts({}, backends); !missing.empty()) {
    throw RuntimeFailure(Drop::model_error, "this runtime lacks " + joined(missing, ", "));
  }
  plan_memory(meta);
  method_.emplace(taken(program_->load_method(kMethod, &*memory_, tracer), kLoadingMethod));
}

void LoadedModel::plan_memory(const MethodMeta& meta) {
  for (std::size_t index = 0; index < meta.num_memory_planned_buffers(); ++index) {
    const auto size = taken(meta.memory_planned_buffer_size(index), kLoadingMethod);
    if (size < 0) {
      require(Error::InvalidProgram, kLoadingMethod);
    }
    std::uint8_t* memory = reserve(static_cast<std::size_t>(size));
    planned_spans_.emplace_back(memory, static_cast<std::size_t>(size));
  }
  planned_memory_.emplace(
      executorch::runtime::Span<executorch::runtime::Span<std::uint8_t>>(planned_spans_.data(), planned_spans_.size()));
  memory_.emplace(&method_memory_, &*planned_memory_, &temporary_memory_);
}

std::uint8_t* LoadedModel::reserve(std::size_t size) {
  constexpr std::size_t kLine = 64;  // of a cache; kernels like their rows to begin with one
  if (size > SIZE_MAX - kLine) {
    throw std::bad_alloc();
  }
  void* memory = std::aligned_alloc(kLine, (size + kLine) / kLine * kLine);  // not zeroed: not touched until used
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  reserved_.emplace_back(static_cast<std::uint8_t*>(memory), std::free);
  return reserved_.back().get();
}

void LoadedModel::compare_with_declarations(std::span<const TensorSpec> inputs) const {
  const MethodMeta meta = method_->method_meta();
  std::vector<std::string> complaints;
  compare(
      "input", meta.num_inputs(), inputs, [&](std::size_t at) { return meta.input_tensor_meta(at); }, complaints);
  compare(
      "output", meta.num_outputs(), outputs_, [&](std::size_t at) { return meta.output_tensor_meta(at); }, complaints);
  if (!complaints.empty()) {
    throw RuntimeFailure(Drop::malformed, std::string(protocol::kModelFile) + ": " + joined(complaints, "; "));
  }
}

void LoadedModel::build_tensors(std::vector<TensorSpec> inputs) {
  for (TensorSpec& spec : inputs) {
    inputs_.push_back(std::make_unique<Input>(std::move(spec)));
    input_values_.emplace_back(Tensor(&inputs_.back()->tensor));
  }
  const MethodMeta meta = method_->method_meta();
  for (std::size_t index = 0; index < outputs_.size(); ++index) {
    const TensorSpec& spec = outputs_[index];
    output_views_.push_back({spec.dtype, spec.shape, nullptr});
    if (!taken(meta.output_tensor_meta(index), kLoadingMethod).is_memory_planned()) {
      require(method_->set_output_data_ptr(reserve(spec.bytes), spec.bytes, index), kLoadingMethod);
    }
  }
}

std::span<const TensorView> LoadedModel::forward(std::span<const TensorView> inputs) {
  if (inputs.size() != inputs_.size()) {
    throw RuntimeFailure(Drop::malformed, "expected " + std::to_string(inputs_.size()) + " inputs, got " +
                                              std::to_string(inputs.size()));
  }
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    inputs_[index]->point_at(inputs[index]);
  }
  const ThreadShare::Use use(threads_);
  const auto began = std::chrono::steady_clock::now();
  require(method_->set_inputs({input_values_.data(), input_values_.size()}), "inference: setting the inputs");
  require(method_->execute(), "inference");
  forward_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began).count();
  collect_outputs();
  return output_views_;
}

void LoadedModel::collect_outputs() {
  for (std::size_t index = 0; index < outputs_.size(); ++index) {
    const TensorSpec& spec = outputs_[index];
    const EValue& value = method_->get_output(index);
    const bool fits = value.isTensor() && value.toTensor().scalar_type() == scalar_type(spec.dtype) &&
                      value.toTensor().nbytes() == spec.bytes &&
                      std::ranges::equal(value.toTensor().sizes(), spec.shape);
    if (!fits) {
      throw RuntimeFailure(Drop::model_error,
                           "output " + spec.name + ": expected " + spec.text() + ", the program gave something else");
    }
    output_views_[index].data = static_cast<const std::byte*>(value.toTensor().const_data_ptr());
  }
}

}  // namespace reflexd
