#include "version.hpp"

#include <msgpack/version.hpp>
#include <nlohmann/json.hpp>

#include "build_info.hpp"
#include "cpu.hpp"
#include "format.hpp"
#include "protocol.hpp"
#include "registry.hpp"

namespace reflexd {
namespace {

nlohmann::ordered_json everything() {
  nlohmann::ordered_json fields;
  fields["worker"] = build_info::kVersion;
  fields["kind"] = to_string(protocol::WorkerHelloKind::native);
  fields["protocol"] = protocol::kProtocol;
  fields["messages"] = protocol::kDeclarationsDigest;
  fields["ring"] = protocol::kRingVersion;
  fields["manifest"] = protocol::kManifestVersion;
  fields["executorch"] = build_info::kExecutorch;
  fields["xnnpack"] = std::string("of executorch ") + build_info::kExecutorchBuild;
  fields["backends"] = usable_backends();
  fields["msgpack"] = MSGPACK_VERSION;
  fields["compiler"] = build_info::kCompiler;
  fields["arch"] = cpu::architecture();
  fields["cpu_found"] = cpu::found();
  fields["cpu_used"] = cpu::used();
  fields["git"] = build_info::kGit;
  return fields;
}

std::string text_of(const nlohmann::ordered_json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  return value.is_array() ? joined(value.get<std::vector<std::string>>(), " ") : value.dump();
}

}  // namespace

std::map<std::string, std::string> hello_versions() {
  return {{"worker", build_info::kVersion},
          {"executorch", build_info::kExecutorch},
          {"compiler", build_info::kCompiler},
          {"arch", cpu::architecture()},
          {"git", build_info::kGit}};
}

std::string version_json() { return everything().dump() + "\n"; }

std::string version_text() {
  std::string text = std::string("reflexd-worker ") + build_info::kVersion + "\n";
  const nlohmann::ordered_json fields = everything();
  for (const auto& [name, value] : fields.items()) {
    if (name != "worker") {
      text += "  " + name + ": " + text_of(value) + "\n";
    }
  }
  return text;
}

}  // namespace reflexd
