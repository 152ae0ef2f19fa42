// The worker's end of the socket pair to infer: whole messages, and an end-of-file the moment either side dies.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "file_descriptor.hpp"

namespace reflexd {

class Link {
 public:
  /// @param descriptor inherited end of a Unix SEQPACKET pair; closed with this.
  /// @throws std::system_error it is not a socket.
  explicit Link(int descriptor);

  /// Waits for the next packet, good until the next call; nothing when the other end has gone.
  /// @throws protocol::Refused it is longer than this link takes.
  std::optional<std::span<const std::byte>> receive();

  /// Sends one packet; false when the other end has gone or has stopped reading.
  [[nodiscard]] bool send(const std::string& packet);

 private:
  FileDescriptor socket_;
  std::vector<std::byte> buffer_;
};

}  // namespace reflexd
