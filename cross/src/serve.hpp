// The message loop of a worker.
#pragma once

#include <filesystem>

namespace reflexd {

/// Serves requests until the other end goes: one inference at a time, an answer to every message.
/// @param descriptor inherited end of a Unix SEQPACKET pair.
/// @param rings folder of the frame rings.
/// @throws std::system_error the descriptor is no such socket.
void serve(int descriptor, const std::filesystem::path& rings);

}  // namespace reflexd
