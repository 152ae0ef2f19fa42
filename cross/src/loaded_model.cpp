#include "loaded_model.hpp"

#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "errors.hpp"
#include "failure.hpp"
#include "format.hpp"
#include "registry.hpp"
#include "scalar_type.hpp"
#include "signature.hpp"

namespace reflexd {
namespace {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using protocol::Drop;

constexpr const char* kMethod = "forward";
constexpr const char* kLoadingProgram = "loading model.pte";
constexpr const char* kLoadingMethod = "loading method forward";
constexpr std::string_view kIdentifier = "ET12";  // bytes 4 to 8 of every program this runtime reads

void require(Error error, const char* doing) {
  if (error != Error::Ok) {
    throw RuntimeFailure(Drop::model_error, std::string(doing) + ": " + in_words(error));
  }
}

template <typename T>
T taken(Result<T> result, const char* doing) {
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

/// A name that the runtime reads from the program. Where a damaged one has none, it gives an address next to null.
std::string name_within(std::span<const std::byte> program, const char* name) {
  const std::less<const void*> before;
  if (before(name, program.data()) || !before(name, program.data() + program.size())) {
    throw RuntimeFailure(Drop::model_error,
                         std::string(protocol::kModelFile) + ": a method or backend has no name: damaged");
  }
  return name;
}

std::vector<std::string> method_names(std::span<const std::byte> bytes, const Program& program) {
  std::vector<std::string> names;
  for (std::size_t index = 0; index < program.num_methods(); ++index) {
    names.push_back(name_within(bytes, taken(program.get_method_name(index), kLoadingProgram)));
  }
  return names;
}

}  // namespace

LoadedModel::LoadedModel(FileBytes program, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                         std::uint32_t threads, executorch::runtime::EventTracer* tracer)
    : threads_(threads), loader_(std::move(program)), outputs_(std::move(outputs)) {
  executorch::runtime::runtime_init();
  const ThreadShare::Use use(threads_);
  load_program();
  load_method(tracer);
  if (const auto complaints = complaints_about(method_->method_meta(), inputs, outputs_); !complaints.empty()) {
    throw RuntimeFailure(Drop::malformed, std::string(protocol::kModelFile) + ": " + joined(complaints, "; "));
  }
  build_tensors(std::move(inputs));
  loader_.finish();
}

LoadedModel::~LoadedModel() = default;

void LoadedModel::load_program() {
  check_identifier(loader_.bytes());
  program_.emplace(taken(Program::load(&loader_, Program::Verification::InternalConsistency), kLoadingProgram));
  const std::vector<std::string> names = method_names(loader_.bytes(), *program_);
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
    backends.push_back(name_within(loader_.bytes(), taken(meta.get_backend_name(index), kLoadingMethod)));
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
  std::size_t room = 0;
  if (__builtin_add_overflow(size, kLine, &room)) {
    throw std::bad_alloc();
  }
  // Zeros, which a program may count on, without touching the pages before they are used.
  void* memory = std::calloc(room, 1);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  reserved_.emplace_back(memory, std::free);
  return static_cast<std::uint8_t*>(std::align(kLine, size, memory, room));
}

void LoadedModel::build_tensors(std::vector<TensorSpec> inputs) {
  for (TensorSpec& spec : inputs) {
    inputs_.push_back(std::make_unique<InputTensor>(std::move(spec)));
    input_values_.push_back(inputs_.back()->value());
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
