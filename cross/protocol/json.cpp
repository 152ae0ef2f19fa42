#include "json.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "refused.hpp"
#include "text.hpp"
#include "tokens.hpp"
#include "writing.hpp"

namespace reflexd::protocol {
namespace {

constexpr std::size_t kShown = 200;

[[noreturn]] void refuse(const std::string& why) { throw Refused("not JSON: " + why); }

// Told by the JSON parser what it finds, in order; how much a container holds is filled in at its end.
class Translator : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Translator(std::string& out) : out_(out), writer_(out) {}

  bool null() override {
    return counted([](Writer& writer) { writer.nil(); });
  }
  bool boolean(bool value) override {
    return counted([=](Writer& writer) { writer.boolean(value); });
  }
  bool number_integer(std::int64_t value) override {
    return counted([=](Writer& writer) { writer.integer(value); });
  }
  bool number_unsigned(std::uint64_t value) override {
    return counted([=](Writer& writer) { writer.unsigned_integer(value); });
  }
  // Also an integer of more than 64 bits; it fits no field for integers.
  bool number_float(double value, const std::string& /*text*/) override {
    return counted([=](Writer& writer) { writer.real(value); });
  }
  bool string(std::string& value) override {
    return counted([&](Writer& writer) { writer.text(value); });
  }
  bool binary(nlohmann::json::binary_t& /*value*/) override { refuse("bytes"); }

  bool start_object(std::size_t /*count*/) override {
    return open(false, [](Writer& writer) { writer.open_map(); });
  }
  bool start_array(std::size_t /*count*/) override {
    return open(true, [](Writer& writer) { writer.open_array(); });
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& value) override {
    ++open_.back().count;
    writer_.text(value);
    return true;
  }

  bool parse_error(std::size_t at, const std::string& /*token*/, const nlohmann::json::exception& error) override {
    refuse("byte " + std::to_string(at) + ": " + fit_text(error.what(), kShown));
  }

 private:
  struct Open {
    bool is_array;
    std::size_t begins_at;
    std::uint32_t count;
  };

  template <typename Write>
  bool counted(Write write_value) {
    if (!open_.empty() && open_.back().is_array) {
      ++open_.back().count;
    }
    write_value(writer_);
    return true;
  }

  template <typename Write>
  bool open(bool is_array, Write write_opening) {
    if (open_.size() == kMaxDepth) {
      refuse("nested deeper than " + std::to_string(kMaxDepth));
    }
    counted(write_opening);
    open_.push_back({is_array, out_.size(), 0});
    return true;
  }

  bool close() {
    writer_.set_count(open_.back().begins_at, open_.back().count);
    open_.pop_back();
    return true;
  }

  std::string& out_;
  Writer writer_;
  std::vector<Open> open_;
};

}  // namespace

std::string json_to_msgpack(std::string_view json) {
  // The parser takes both for no text at all: a mark it skips, and an end with anything behind it.
  if (json.starts_with("\xef\xbb\xbf")) {
    refuse("it begins with a byte order mark");
  }
  if (json.find('\0') != std::string_view::npos) {
    refuse("it has a zero byte");
  }
  std::string out;
  Translator translator(out);
  nlohmann::json::sax_parse(json, &translator);
  return out;
}

}  // namespace reflexd::protocol
