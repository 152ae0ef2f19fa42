// The reader's end of a frame ring (daemon/frames.py has the layout and the writer): whole frames, newest wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>

#include "protocol.hpp"

namespace reflexd {

/// A ring that cannot be read; the text says where, what was expected and what there is.
class RingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class RingReader {
 public:
  /// Maps the ring file at `path`.
  /// @throws RingError no ring there, or not one this build can read.
  explicit RingReader(const std::filesystem::path& path);
  ~RingReader();
  RingReader(RingReader&& other) noexcept;
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;
  RingReader& operator=(RingReader&&) = delete;

  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] std::uint32_t width() const noexcept { return width_; }
  [[nodiscard]] std::uint32_t height() const noexcept { return height_; }
  [[nodiscard]] protocol::PixelFormat format() const noexcept { return format_; }

  /// The pixels of frame `seq` in place, or null if it is not in the ring. They may be overwritten at any moment: what
  /// was made of them counts only if `intact(seq)` says so afterwards. Reading a page beyond their end does no harm.
  [[nodiscard]] const std::byte* find(std::uint64_t seq) const noexcept;

  /// Whether nothing has been written over frame `seq` up to now.
  [[nodiscard]] bool intact(std::uint64_t seq) const noexcept;

 private:
  [[nodiscard]] std::byte* slot(std::uint64_t seq) const noexcept;
  void read_header(const std::filesystem::path& path, std::uint64_t file_size);

  std::byte* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::uint64_t slots_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint32_t width_ = 0;
  std::uint32_t height_ = 0;
  protocol::PixelFormat format_{};
};

}  // namespace reflexd
