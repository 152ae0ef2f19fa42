// Reads the frames of one model's requests from the rings.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "protocol.hpp"
#include "ring.hpp"
#include "tensor.hpp"

namespace reflexd {

class FrameStack {
 public:
  /// @param rings folder of the ring files.
  /// @param spec the model's input; outlives this.
  FrameStack(std::filesystem::path rings, const protocol::FrameInput& spec);

  /// The input tensor: one frame in place, or several copied into one stack; good until the next call. A frame in place
  /// counts only if `check` lets it pass after use.
  /// @throws RuntimeFailure `torn` when a frame is no longer in the ring, `malformed` when the ring has another view or
  ///     the request another number of frames.
  TensorView read(const protocol::RingFrames& frames);

  /// @throws RuntimeFailure `torn` unless the frames are still what they were when they were read.
  void check(const protocol::RingFrames& frames) const;

 private:
  const RingReader& reader(const protocol::RingFrames& frames);

  std::filesystem::path rings_;
  const protocol::FrameInput& spec_;
  std::size_t frame_bytes_;
  std::map<std::string, RingReader> readers_;
  std::vector<std::byte> stack_;
};

}  // namespace reflexd
