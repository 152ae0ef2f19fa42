// What this worker is made of.
#pragma once

#include <map>
#include <string>

namespace reflexd {

/// The versions that go into a WorkerHello and a verdict.
std::map<std::string, std::string> hello_versions();

/// Everything, as one JSON line.
std::string version_json();

/// Everything, for people.
std::string version_text();

}  // namespace reflexd
