#include "frame_stack.hpp"

#include <cstring>
#include <utility>

#include "failure.hpp"
#include "format.hpp"

namespace reflexd {

using protocol::Drop;
using protocol::RingFrames;

namespace {

std::string view_text(std::int64_t width, std::int64_t height, protocol::PixelFormat format) {
  return std::to_string(width) + "x" + std::to_string(height) + " " + std::string(to_string(format));
}

[[noreturn]] void fail_torn(const RingFrames& frames, const char* what) {
  throw RuntimeFailure(Drop::torn, "frames " + list_text(frames.seqs) + " of " + frames.ring + " " + what);
}

}  // namespace

FrameStack::FrameStack(std::filesystem::path rings, const protocol::FrameInput& spec)
    : rings_(std::move(rings)),
      spec_(spec),
      frame_bytes_(static_cast<std::size_t>(spec.view.width * spec.view.height) * pixel_bytes(spec.view.format)),
      stack_(spec.offsets_ms.size() > 1 ? frame_bytes_ * spec.offsets_ms.size() : 0) {}

TensorView FrameStack::read(const RingFrames& frames) {
  const RingReader& ring = reader(frames);
  const std::size_t wanted = spec_.offsets_ms.size();
  if (frames.seqs.size() != wanted) {
    throw RuntimeFailure(Drop::malformed,
                         "expected " + std::to_string(wanted) + " frames, got " + std::to_string(frames.seqs.size()));
  }
  const std::byte* data = stack_.data();
  for (std::size_t index = 0; index < wanted; ++index) {
    const std::byte* pixels = ring.find(static_cast<std::uint64_t>(frames.seqs[index]));
    if (pixels == nullptr) {
      fail_torn(frames, "are no longer there");
    }
    if (wanted == 1) {
      data = pixels;
    } else {
      std::memcpy(stack_.data() + index * frame_bytes_, pixels, frame_bytes_);
    }
  }
  if (wanted > 1) {
    check(frames);
  }
  return {spec_.dtype, spec_.shape, data};
}

void FrameStack::check(const RingFrames& frames) const {
  const RingReader& ring = readers_.at(frames.ring);
  for (const std::int64_t seq : frames.seqs) {
    if (!ring.intact(static_cast<std::uint64_t>(seq))) {
      fail_torn(frames, "were overwritten while in use");
    }
  }
}

const RingReader& FrameStack::reader(const RingFrames& frames) {
  const auto epoch = static_cast<std::uint64_t>(frames.epoch);
  if (const auto found = readers_.find(frames.ring); found != readers_.end()) {
    if (found->second.epoch() == epoch) {
      return found->second;
    }
    readers_.erase(found);
  }
  try {
    // Only the last part of the name counts: no request leads out of the folder.
    RingReader fresh(rings_ / std::filesystem::path(frames.ring).filename());
    if (fresh.epoch() != epoch) {
      throw RuntimeFailure(Drop::torn, "ring " + frames.ring + " was made anew");
    }
    const auto& view = spec_.view;
    if (fresh.width() != view.width || fresh.height() != view.height || fresh.format() != view.format) {
      throw RuntimeFailure(Drop::malformed, frames.ring + ": " +
                                                view_text(fresh.width(), fresh.height(), fresh.format()) + ", not " +
                                                view_text(view.width, view.height, view.format));
    }
    return readers_.emplace(frames.ring, std::move(fresh)).first->second;
  } catch (const RingError& error) {
    throw RuntimeFailure(Drop::torn, error.what());
  }
}

}  // namespace reflexd
