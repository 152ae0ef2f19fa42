// A verified package, loaded to answer requests.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "frame_stack.hpp"
#include "loaded_model.hpp"
#include "measure.hpp"
#include "package.hpp"
#include "protocol.hpp"

namespace reflexd {

class ServedModel {
 public:
  /// Loads the package `message` names.
  /// @param rings folder of the frame rings.
  /// @throws PackageError, RuntimeFailure it is not the one that was verified, or does not load.
  ServedModel(const protocol::LoadModel& message, std::filesystem::path rings);

  /// Runs the first golden over and over.
  Latency warm_up();

  /// One inference. The outputs lie in the runtime's memory: good until the next call.
  /// @throws RuntimeFailure why there is no result.
  protocol::RunDone run(const protocol::RunModel& request);

 private:
  TensorView input(const std::variant<protocol::InlineTensor, protocol::RingFrames>& input);

  Package package_;
  LoadedModel model_;
  FrameStack frames_;
  std::vector<TensorView> inputs_;
};

}  // namespace reflexd
