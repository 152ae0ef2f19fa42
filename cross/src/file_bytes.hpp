// A file read whole into memory of its own: what is hashed is what is used, whatever happens to the file later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace reflexd {

class FileBytes {
 public:
  /// Reads `path`.
  /// @throws std::system_error with `path` and the reason, also when the file has more than `limit` bytes or is none.
  FileBytes(const std::filesystem::path& path, std::uint64_t limit);
  ~FileBytes();
  FileBytes(FileBytes&& other) noexcept;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  FileBytes& operator=(FileBytes&&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

  /// Gives the pages that lie wholly within [offset, offset + size) back to the system; they must not be read again.
  void release(std::size_t offset, std::size_t size) noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace reflexd
