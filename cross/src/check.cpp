#include "check.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "failure.hpp"
#include "format.hpp"
#include "measure.hpp"
#include "package.hpp"
#include "process.hpp"
#include "profile.hpp"
#include "registry.hpp"
#include "runtime_log.hpp"
#include "sha256.hpp"
#include "version.hpp"

namespace reflexd {
namespace {

constexpr rlim_t kSpareMemory = rlim_t{1} << 30U;  // beside a few copies of the model: a damaged file can ask for more
constexpr rlim_t kMaxLogBytes = rlim_t{1} << 20U;
constexpr rlim_t kMaxProfileBytes = rlim_t{1} << 28U;
constexpr rlim_t kMaxCpuSeconds = 600;

struct Verdict {
  bool ok = false;
  std::string detail;
  Latency latency;
  double peak_rss_mb = 0;
  std::string manifest_sha256;
  std::size_t goldens = 0;
  double max_abs_error = 0;
};

void say(const std::string& doing) {
  const std::string line = "verify: " + doing + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void limit(decltype(RLIMIT_CORE) what, rlim_t most) {
  const rlimit both{most, most};
  ::setrlimit(what, &both);
}

/// Caps the address space: a terabyte that a file asks for must fail here and not push the device into swap.
void limit_memory([[maybe_unused]] std::size_t model_bytes) {
#if !defined(__SANITIZE_ADDRESS__)  // whose shadow takes terabytes of address space by design
  limit(RLIMIT_AS, mapped_bytes() + 4 * model_bytes + kSpareMemory);
#endif
}

std::vector<float> values(const TensorView& tensor, std::size_t bytes) {
  std::vector<float> found(bytes / sizeof(float));
  std::memcpy(found.data(), tensor.data, found.size() * sizeof(float));
  return found;
}

std::string first_values(const std::vector<float>& found) {
  std::vector<std::string> texts;
  for (std::size_t index = 0; index < std::min<std::size_t>(found.size(), 8); ++index) {
    texts.push_back(std::isnan(found[index]) ? "nan" : short_number(found[index], 9));
  }
  return "[" + joined(texts, ", ") + "]";
}

/// Runs every golden; returns the largest difference between an output and the recorded one.
double run_goldens(LoadedModel& model, const Goldens& goldens, const Package& package) {
  const std::size_t bytes = package.outputs.front().bytes;
  const double tolerance = package.manifest.goldens.tolerance;
  double worst = 0;
  for (std::size_t index = 0; index < goldens.count(); ++index) {
    const Goldens::Case golden = goldens.at(index);
    const std::vector<float> found = values(model.forward(golden.inputs).front(), bytes);
    const std::vector<float> expected = values(golden.output, bytes);
    const std::string start = "golden " + std::to_string(index) + ": ";
    if (!std::ranges::all_of(found, [](float value) { return std::isfinite(value); })) {
      throw PackageError(start + "expected finite outputs, got " + first_values(found));
    }
    double error = 0;
    for (std::size_t at = 0; at < found.size(); ++at) {
      const double off = std::abs(double{found[at]} - double{expected[at]});
      error = off <= error ? error : off;  // not a number, which a damaged recording may hold, counts as off
    }
    if (!(error <= tolerance)) {
      throw PackageError(start + "the output is " + short_number(error, 3) + " off, " + short_number(tolerance, 6) +
                         " allowed: damaged weights, or kernels that compute something else than the exporter's");
    }
    worst = std::max(worst, error);
  }
  return worst;
}

void examine(const CheckOptions& options, Verdict& verdict) {
  const FileBytes manifest = read_manifest(options.package);
  verdict.manifest_sha256 = sha256_hex(manifest.bytes());
  const Package package = checked_package(options.package, manifest.bytes());
  say("comparing hashes");
  FileBytes program = read_model(package);
  say("starting the runtime");
  limit_memory(program.bytes().size());
  if (const auto missing = missing_parts(package.manifest.operators, package.manifest.backends); !missing.empty()) {
    throw PackageError("this runtime lacks " + joined(missing, ", "));
  }
  say("loading the program");
  LoadedModel model(std::move(program), package.inputs, package.outputs, options.threads);
  say("running the goldens");
  const Goldens goldens(package);  // only now: a manifest unlike the program is named as that, not by their size
  verdict.max_abs_error = run_goldens(model, goldens, package);
  verdict.goldens = goldens.count();
  if (options.measured) {
    say("measuring");
    verdict.latency = measure(model, goldens.at(0).inputs);
  }
  verdict.peak_rss_mb = peak_rss_mb();
  if (options.etdump) {
    say("profiling");
    write_profile(package, goldens.at(0).inputs, options.threads, *options.etdump);
  }
  verdict.ok = true;
}

Verdict verdict_on(const CheckOptions& options) {
  Verdict verdict;
  try {
    say("reading " + options.package.string());
    examine(options, verdict);
  } catch (const std::exception& failure) {
    const std::string package = options.package.string();
    const std::string detail = failure.what();
    Verdict refused;
    refused.detail = detail.starts_with(package) ? detail : package + ": " + detail;
    refused.manifest_sha256 = verdict.manifest_sha256;
    return refused;
  }
  return verdict;
}

std::string json_line(const Verdict& verdict) {
  nlohmann::ordered_json fields;
  fields["ok"] = verdict.ok;
  fields["detail"] = verdict.detail;
  fields["p50_ms"] = verdict.latency.p50_ms;
  fields["p99_ms"] = verdict.latency.p99_ms;
  fields["peak_rss_mb"] = verdict.peak_rss_mb;
  fields["versions"] = hello_versions();
  fields["manifest_sha256"] = verdict.manifest_sha256;
  fields["goldens"] = verdict.goldens;
  fields["max_abs_error"] = verdict.max_abs_error;
  return fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

int check(const CheckOptions& options) {
  const int answer = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // native code prints where it likes
  end_with_parent();
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, options.etdump ? kMaxProfileBytes : kMaxLogBytes);
  limit(RLIMIT_CPU, kMaxCpuSeconds);
  runtime_log::capture(true);
  const Verdict verdict = verdict_on(options);
  const std::string line = json_line(verdict);
  const ssize_t written = ::write(answer, line.data(), line.size());
  return verdict.ok && written == static_cast<ssize_t>(line.size()) ? 0 : 1;
}

}  // namespace reflexd
