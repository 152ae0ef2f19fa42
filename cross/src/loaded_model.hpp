// The `forward` method of a package's program, checked against the package's declarations.
#pragma once

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/executor/program.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "file_bytes.hpp"
#include "input_tensor.hpp"
#include "program_loader.hpp"
#include "tensor.hpp"
#include "threads.hpp"

namespace reflexd {

/// Not thread-safe: one inference at a time.
class LoadedModel {
 public:
  /// @param program bytes of the .pte; that they are the right ones is the caller's business.
  /// @param tracer told of every inference, for profiling; outlives the model. May be null.
  /// @throws RuntimeFailure not a program, damaged, made for another runtime, or not what the declarations say.
  LoadedModel(FileBytes program, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs, std::uint32_t threads,
              executorch::runtime::EventTracer* tracer = nullptr);

  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;
  LoadedModel(LoadedModel&&) = delete;
  LoadedModel& operator=(LoadedModel&&) = delete;

  /// Runs one inference.
  /// @param inputs one per declared input, in order. Their memory is only read, in place where the program allows it.
  /// @return one tensor per output, in the runtime's memory: good until the next call.
  /// @throws RuntimeFailure `malformed` for inputs that do not fit, `model_error` when the runtime fails.
  std::span<const TensorView> forward(std::span<const TensorView> inputs);

  /// Time of the last inference inside the runtime, taking over inputs included, ns.
  [[nodiscard]] std::int64_t forward_ns() const noexcept { return forward_ns_; }

 private:
  void load_program();
  void load_method(executorch::runtime::EventTracer* tracer);
  void plan_memory(const executorch::runtime::MethodMeta& meta);
  std::uint8_t* reserve(std::size_t size);
  void build_tensors(std::vector<TensorSpec> inputs);
  void collect_outputs();

  ThreadShare threads_;
  ProgramLoader loader_;
  std::vector<std::unique_ptr<InputTensor>> inputs_;
  std::vector<TensorSpec> outputs_;

  // In the order the runtime needs them to go: the method before its memory, the program before its loader.
  std::optional<executorch::runtime::Program> program_;
  std::vector<std::unique_ptr<void, decltype(&std::free)>> reserved_;
  std::vector<executorch::runtime::Span<std::uint8_t>> planned_spans_;
  std::optional<executorch::runtime::HierarchicalAllocator> planned_memory_;
  executorch::extension::MallocMemoryAllocator method_memory_;
  executorch::extension::MallocMemoryAllocator temporary_memory_;
  std::optional<executorch::runtime::MemoryManager> memory_;
  std::optional<executorch::runtime::Method> method_;

  std::vector<executorch::runtime::EValue> input_values_;
  std::vector<TensorView> output_views_;
  std::int64_t forward_ns_ = 0;
};

}  // namespace reflexd
