#include "file_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "file_descriptor.hpp"

namespace reflexd {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw std::system_error(error, std::generic_category(), path.string());
}

std::size_t checked_size(int file, const std::filesystem::path& path, std::uint64_t limit) {
  struct stat status {};
  if (::fstat(file, &status) != 0) {
    fail(path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    fail(path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  }
  if (static_cast<std::uint64_t>(status.st_size) > limit) {
    fail(path, EFBIG);
  }
  return static_cast<std::size_t>(status.st_size);
}

void fill(int file, std::byte* data, std::size_t size, const std::filesystem::path& path) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file, data + done, size - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      fail(path, got < 0 ? errno : ESTALE);
    }
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace

FileBytes::FileBytes(const std::filesystem::path& path, std::uint64_t limit) {
  // Non-blocking, so that a pipe under this name is refused below and not waited for.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    fail(path, errno);
  }
  const std::size_t size = checked_size(file.get(), path, limit);
  if (size == 0) {
    return;
  }
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(path, errno);
  }
  data_ = static_cast<std::byte*>(memory);
  size_ = size;
  try {
    fill(file.get(), data_, size_, path);
  } catch (...) {
    ::munmap(data_, size_);
    throw;
  }
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileBytes::~FileBytes() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

void FileBytes::release(std::size_t offset, std::size_t size) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t end = (offset + size) / page * page;
  if (first < end) {
    ::madvise(data_ + first, end - first, MADV_DONTNEED);
  }
}

}  // namespace reflexd
