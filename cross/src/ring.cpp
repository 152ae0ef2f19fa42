#include "ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "file_descriptor.hpp"

namespace reflexd {

using protocol::kRingFormats;
using protocol::kRingMagic;
using protocol::kRingPage;
using protocol::kRingSlotHeader;
using protocol::kRingVersion;
using protocol::RingHeader;
using protocol::RingSlot;

namespace {

static_assert(std::endian::native == std::endian::little, "the ring and inline tensors are little-endian");

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& complaint) {
  throw RingError("frame ring " + path.string() + ": " + complaint);
}

std::uint64_t ring_size(int file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(path, "expected a ring file");
  }
  if (static_cast<std::uint64_t>(status.st_size) < kRingPage) {
    fail(path, std::to_string(status.st_size) + " bytes, not a ring");
  }
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

RingReader::RingReader(const std::filesystem::path& path) {
  // Non-blocking, so that a pipe under this name is refused below and not waited for.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    fail(path, "expected a ring file: " + std::generic_category().message(errno));
  }
  const std::uint64_t size = ring_size(file.get(), path);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  // Kernels read a few bytes beyond their input's end, and the last frame's end may be the file's: a page of zeros
  // follows it. Both are reserved in one piece first, so that nothing else can come to lie there.
  mapped_ = (size + page - 1) / page * page + page;
  void* memory = ::mmap(nullptr, mapped_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(path, "no address space for it: " + std::generic_category().message(errno));
  }
  base_ = static_cast<std::byte*>(memory);
  try {
    if (::mmap(base_, size, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
      fail(path, "cannot be mapped: " + std::generic_category().message(errno));
    }
    read_header(path, size);
  } catch (...) {
    ::munmap(base_, mapped_);
    throw;
  }
}

void RingReader::read_header(const std::filesystem::path& path, std::uint64_t file_size) {
  RingHeader header;
  std::memcpy(&header, base_, sizeof header);
  if (header.magic != kRingMagic || header.version != kRingVersion || header.format >= kRingFormats.size()) {
    fail(path, "not a ring of version " + std::to_string(kRingVersion));
  }
  format_ = kRingFormats[header.format];
  constexpr std::uint64_t kMaxSide = 1U << 16U;  // keeps the products below far from overflow
  const bool sane = header.slots > 0 && header.width > 0 && header.width <= kMaxSide && header.height > 0 &&
                    header.height <= kMaxSide;
  const std::uint64_t row = header.width * pixel_bytes(format_);
  const std::uint64_t step = kRingSlotHeader + (row * header.height + 63) / 64 * 64;
  if (!sane || header.row != row || header.step != step || (file_size - kRingPage) / step < header.slots) {
    fail(path, "its header and its size of " + std::to_string(file_size) + " bytes disagree");
  }
  slots_ = header.slots;
  step_ = step;
  epoch_ = header.epoch;
  width_ = header.width;
  height_ = header.height;
}

RingReader::RingReader(RingReader&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      mapped_(other.mapped_),
      slots_(other.slots_),
      step_(other.step_),
      epoch_(other.epoch_),
      width_(other.width_),
      height_(other.height_),
      format_(other.format_) {}

RingReader::~RingReader() {
  if (base_ != nullptr) {
    ::munmap(base_, mapped_);
  }
}

std::byte* RingReader::slot(std::uint64_t seq) const noexcept { return base_ + kRingPage + (seq % slots_) * step_; }

// Memory order. The writer makes a slot's generation odd (2*seq - 1), puts a full barrier, writes the pixels, puts
// another full barrier and makes the generation even (2*seq).
//
// Before the pixels are read: the load-acquire in find() keeps every later read of this thread behind it. If it saw
// 2*seq, the writer's second barrier was passed before, so the pixels read are at least those of frame `seq`.
//
// After they were read: the acquire fence in intact() keeps the load behind it after every read before it, which is
// the order Arm would not keep by itself. If any read saw a byte of a later frame, that byte was written after the
// writer's first barrier and so after an odd generation beyond 2*seq: the load behind the fence sees that one or a
// later one, never 2*seq again, because sequence numbers only grow.
//
// A pool's threads read pixels too; they hand their results to this thread through the pool's own release and acquire,
// which puts their reads before the fence as well.

const std::byte* RingReader::find(std::uint64_t seq) const noexcept {
  std::byte* at = slot(seq);
  const std::atomic_ref<std::uint64_t> generation(reinterpret_cast<RingSlot*>(at)->generation);
  // Frames count from 1: a slot nobody has written to yet has generation 0.
  return seq > 0 && generation.load(std::memory_order_acquire) == 2 * seq ? at + kRingSlotHeader : nullptr;
}

bool RingReader::intact(std::uint64_t seq) const noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::atomic_ref<std::uint64_t> generation(reinterpret_cast<RingSlot*>(slot(seq))->generation);
  return generation.load(std::memory_order_relaxed) == 2 * seq;
}

}  // namespace reflexd
