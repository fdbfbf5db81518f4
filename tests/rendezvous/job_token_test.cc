// Tests the sources of a process's job token.
#include "rendezvous/job_token.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>

namespace rondo {
namespace job_token_test {

Environment Saying(std::optional<std::string> value) {
  return [value = std::move(value)](const std::string& name) { return name == "RONDO_TOKEN" ? value : std::nullopt; };
}

TEST_CASE("What the caller gives goes before the variable, and without either there is no token") {
  CHECK(*TokenText("given", Saying("variable")) == "given");
  CHECK(*TokenText("", Saying("variable")) == "variable");
  CHECK(*TokenText("", Saying(std::nullopt)) == "");
  CHECK(*TokenText("", {}) == "");
  CHECK(*MakeJobToken("") == nullptr);
  CHECK((*MakeJobToken("secret"))->Fingerprint() == (*JobToken::Make("secret", ""))->Fingerprint());
}

TEST_CASE("A token of a wrong shape is an error that names the variable and keeps its value to itself") {
  for (const std::string& value :
       {std::string(), std::string(1025, 's'), std::string("qw ertz"), std::string("qwertz\n")}) {
    const auto token = TokenText("", Saying(value));
    REQUIRE_FALSE(token);
    CHECK(token.error().code() == ErrorCode::kInvalidArgument);
    CHECK(token.error().message().find("variable RONDO_TOKEN") != std::string::npos);
    CHECK(token.error().ToString().find("ertz") == std::string::npos);
    CHECK(token.error().ToString().find("sss") == std::string::npos);
  }
  CHECK(TokenText("se cret", {}).error().message().find("the token given") != std::string::npos);
}

}  // namespace job_token_test
}  // namespace rondo
