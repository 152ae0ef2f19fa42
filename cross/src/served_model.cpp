#include "served_model.hpp"

#include <utility>

#include "failure.hpp"
#include "sha256.hpp"

namespace reflexd {

using protocol::Drop;
using protocol::InlineTensor;
using protocol::RingFrames;

namespace {

Package verified_package(const protocol::LoadModel& message) {
  const std::filesystem::path folder = message.package;
  const FileBytes manifest = read_manifest(folder);
  if (sha256_hex(manifest.bytes()) != message.manifest_sha256) {
    throw PackageError(message.package + ": the manifest is not the verified one any more: start infer anew");
  }
  return checked_package(folder, manifest.bytes());
}

TensorView inline_view(const InlineTensor& tensor) {
  if (tensor_bytes(tensor.dtype, tensor.shape) != tensor.data.size()) {
    throw RuntimeFailure(Drop::malformed, std::to_string(tensor.data.size()) + " bytes are not " +
                                              type_text(tensor.dtype, tensor.shape));
  }
  return {tensor.dtype, tensor.shape, tensor.data.data()};
}

}  // namespace

ServedModel::ServedModel(const protocol::LoadModel& message, std::filesystem::path rings)
    : package_(verified_package(message)),
      model_(read_model(package_), package_.inputs, package_.outputs, static_cast<std::uint32_t>(message.threads)),
      frames_(std::move(rings), package_.frame()) {}

Latency ServedModel::warm_up() {
  const Goldens goldens(package_);
  const Goldens::Case first = goldens.at(0);
  return reflexd::warm_up(model_, first.inputs);
}

TensorView ServedModel::input(const std::variant<InlineTensor, RingFrames>& input) {
  if (const auto* frames = std::get_if<RingFrames>(&input)) {
    return frames_.read(*frames);
  }
  return inline_view(std::get<InlineTensor>(input));
}

protocol::RunDone ServedModel::run(const protocol::RunModel& request) {
  inputs_.clear();
  for (const auto& one : request.inputs) {
    inputs_.push_back(input(one));
  }
  const std::span<const TensorView> outputs = model_.forward(inputs_);
  for (const auto& one : request.inputs) {
    if (const auto* frames = std::get_if<RingFrames>(&one); frames != nullptr && frames->seqs.size() == 1) {
      frames_.check(*frames);  // it was read in place
    }
  }
  protocol::RunDone done;
  done.request = request.request;
  done.model = request.model;
  done.forward_ns = model_.forward_ns();
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    const TensorSpec& spec = package_.outputs[index];
    done.outputs.push_back({spec.dtype, spec.shape, {outputs[index].data, spec.bytes}});
  }
  return done;
}

}  // namespace reflexd
