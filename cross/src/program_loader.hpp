// Serves a program to the runtime from the bytes whose hash was checked.
#pragma once

#include <executorch/runtime/core/data_loader.h>

#include <cstddef>
#include <map>

#include "file_bytes.hpp"

namespace reflexd {

/// Not thread-safe: the runtime loads in the thread that asks it to.
class ProgramLoader final : public executorch::runtime::DataLoader {
 public:
  explicit ProgramLoader(FileBytes file) : file_(std::move(file)) {}

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return file_.bytes(); }

  /// Gives back the memory of all parts the runtime does not hold any more, such as weights a backend has packed into
  /// memory of its own; from then on nothing can be loaded.
  void finish();

  [[nodiscard]] executorch::runtime::Result<executorch::runtime::FreeableBuffer> load(
      std::size_t offset, std::size_t size, const SegmentInfo& info) const override;
  [[nodiscard]] executorch::runtime::Error load_into(std::size_t offset, std::size_t size, const SegmentInfo& info,
                                                     void* buffer) const override;
  [[nodiscard]] executorch::runtime::Result<std::size_t> size() const override { return file_.bytes().size(); }

 private:
  [[nodiscard]] bool covers(std::size_t offset, std::size_t size) const noexcept;
  static void forget(void* loader, void* data, std::size_t size);

  FileBytes file_;
  mutable std::multimap<std::size_t, std::size_t> held_;  // offset and size of every part the runtime holds
  bool finished_ = false;
};

}  // namespace reflexd
