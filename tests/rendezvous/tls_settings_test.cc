// Tests the TLS settings of a process: which source has precedence, that errors name the missing variable, and that no
// message contains a key.
#include "rendezvous/tls_settings.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace rondo {
namespace tls_settings_test {

Environment Of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

const std::string kKeyText(64, 'a');
const std::string kKey(32, '\xaa');

TEST_CASE("tls settings: nothing said is off, also without an environment") {
  CHECK(FindTls(std::nullopt, {})->mode == TlsMode::kOff);
  CHECK(FindTls(std::nullopt, Of({}))->mode == TlsMode::kOff);
  CHECK(FindTls(std::nullopt, Of({{"RONDO_TLS", ""}}))->mode == TlsMode::kOff);
}

TEST_CASE("tls settings: the environment says mode, key and files") {
  const auto psk = FindTls(std::nullopt, Of({{"RONDO_TLS", "psk"}, {"RONDO_TLS_PSK", kKeyText}}));
  REQUIRE(psk);
  CHECK(psk->mode == TlsMode::kPsk);
  CHECK(psk->psk == kKey);
  const auto files = FindTls(std::nullopt, Of({{"RONDO_TLS", "certificates"},
                                               {"RONDO_TLS_CA", "/ca"},
                                               {"RONDO_TLS_CERTIFICATE", "/cert"},
                                               {"RONDO_TLS_KEY", "/key"}}));
  REQUIRE(files);
  CHECK(files->mode == TlsMode::kCertificates);
  CHECK(files->ca_file == "/ca");
  CHECK(files->certificate_file == "/cert");
  CHECK(files->key_file == "/key");
}

TEST_CASE("tls settings: the program goes first, and the environment fills in what it left open") {
  const Environment says_psk = Of({{"RONDO_TLS", "psk"}, {"RONDO_TLS_PSK", kKeyText}});
  CHECK(FindTls(TlsOptions{}, says_psk)->mode == TlsMode::kOff);
  TlsOptions own;
  own.mode = TlsMode::kPsk;
  CHECK(FindTls(own, says_psk)->psk == kKey);
  own.psk = std::string(32, 'o');
  CHECK(FindTls(own, says_psk)->psk == own.psk);
}

TEST_CASE("tls settings: the job's token gives the key if no file is named, the same for the same token") {
  const auto key_by = [](std::string_view text, const Environment& environment) {
    return FindTls(std::nullopt, environment, JobToken::Make(text, "the token")->get())->psk;
  };
  const Environment by_key = Of({{"RONDO_TLS", "psk"}});
  CHECK(key_by("secret", by_key).size() == kTlsPskBytes);
  CHECK(key_by("secret", by_key) == key_by("secret", by_key));
  CHECK(key_by("secret", by_key) != key_by("another", by_key));
  CHECK(key_by("secret", Of({{"RONDO_TLS", "psk"}, {"RONDO_TLS_PSK", kKeyText}})) == kKey);
  CHECK(key_by("secret", Of({})).empty());
}

TEST_CASE("tls settings: what is missing or wrong is named, and no key is shown") {
  const auto refuse = [](const Environment& environment, std::string_view word) {
    const auto found = FindTls(std::nullopt, environment);
    REQUIRE(!found);
    CAPTURE(found.error().ToString());
    CHECK(found.error().code() == ErrorCode::kInvalidArgument);
    CHECK(found.error().message().find(word) != std::string::npos);
    CHECK(found.error().ToString().find("c0ffee") == std::string::npos);
  };
  refuse(Of({{"RONDO_TLS", "on"}}), "variable RONDO_TLS is 'on'; expected off, psk or certificates");
  refuse(Of({{"RONDO_TLS", "psk"}}), "set variable RONDO_TOKEN or RONDO_TLS_PSK");
  refuse(Of({{"RONDO_TLS", "psk"}, {"RONDO_TLS_PSK", "c0ffee"}}), "64 hexadecimal digits");
  refuse(Of({{"RONDO_TLS", "psk"}, {"RONDO_TLS_PSK", "c0ffee" + std::string(58, 'z')}}), "64 hexadecimal digits");
  refuse(Of({{"RONDO_TLS", "certificates"}, {"RONDO_TLS_CA", "/ca"}}), "RONDO_TLS_CERTIFICATE");
}

TEST_CASE("tls settings: a key's text is read back") {
  CHECK(ParseTlsPsk(TlsPskText(kKey)) == kKey);
  std::string every;
  for (int i = 0; i < 32; ++i) every += static_cast<char>(i * 8);
  CHECK(ParseTlsPsk(TlsPskText(every)) == every);
}

}  // namespace tls_settings_test
}  // namespace rondo
