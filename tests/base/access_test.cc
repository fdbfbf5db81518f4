// Tests the job token: its format, the proofs made with it, and that no text ever shows it.
#include "base/access.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace rondo {
namespace access_test {

std::shared_ptr<const JobToken> Token(std::string_view text) {
  auto token = JobToken::Make(text, "the token");
  REQUIRE_MESSAGE(token, token.error().ToString());
  return *token;
}

std::string Hex(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

// Python's hmac module computed these values. Processes of other builds must compute the same values.
TEST_CASE("Proofs, fingerprint and derived keys are HMAC-SHA256 over lengths and parts") {
  const auto token = Token("secret");
  CHECK(Hex(token->Prove("label", {AsBytes("one"), AsBytes("")})) ==
        "f49231881e46d496fb8d368aef95a7f03b28be2614bbd5eaf53ca463d08f1c08");
  CHECK(token->Fingerprint() == "4c3dee653f189792");
  CHECK(Hex(token->Derive("tls")) == "76fa3d969ee252b21c73abd7b9371df238944c641b5ea857398b4010b9eece3b");
}

TEST_CASE("A proof holds for the same token, label and parts, and for nothing else") {
  const auto token = Token("secret");
  const Bytes part = AsBytes("what is proved");
  const TokenProof proof = token->Prove("caller", {part});
  CHECK(Token("secret")->Proves(proof, "caller", {part}));
  CHECK_FALSE(Token("secre")->Proves(proof, "caller", {part}));
  CHECK_FALSE(Token("Secret")->Proves(proof, "caller", {part}));
  CHECK_FALSE(token->Proves(proof, "called", {part}));
  CHECK_FALSE(token->Proves(proof, "caller", {part.first(part.size() - 1)}));
  CHECK_FALSE(token->Proves(proof, "caller", {part, {}}));
  // The proof also depends on where one part ends and the next one begins.
  CHECK_FALSE(token->Proves(proof, "caller", {part.first(4), part.subspan(4)}));
}

TEST_CASE("A proof of which any bit is another, or a byte too few or too many, does not hold") {
  const auto token = Token("secret");
  const TokenProof proof = token->Prove("caller", {});
  for (std::size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    TokenProof damaged = proof;
    damaged[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK_FALSE(token->Proves(damaged, "caller", {}));
  }
  CHECK_FALSE(token->Proves(Bytes(proof).first(31), "caller", {}));
  CHECK_FALSE(token->Proves({}, "caller", {}));
  std::vector<std::byte> longer(proof.begin(), proof.end());
  longer.push_back({});
  CHECK_FALSE(token->Proves(longer, "caller", {}));
}

TEST_CASE("A token of a wrong shape is refused by name, and never shown") {
  const auto refusal = [](std::string_view text) {
    const auto token = JobToken::Make(text, "variable RONDO_TOKEN");
    REQUIRE_FALSE(token);
    CHECK(token.error().code() == ErrorCode::kInvalidArgument);
    std::string said = token.error().ToString();
    CHECK(said.find("variable RONDO_TOKEN") != std::string::npos);
    if (text.size() > 4) CHECK(said.find(text.substr(0, 4)) == std::string::npos);
    return said;
  };
  CHECK(refusal("").find("empty") != std::string::npos);
  CHECK(refusal(std::string(kMaxTokenBytes + 1, 'q')).find("1025 bytes") != std::string::npos);
  CHECK(refusal("qwert\n").find("byte 6") != std::string::npos);
  CHECK(refusal("qwert zuiop").find("byte 6") != std::string::npos);
  CHECK(refusal("qw\xc3\xa4rt").find("byte 3") != std::string::npos);
  CHECK(refusal(std::string_view("qwert\0", 6)).find("byte 6") != std::string::npos);
  CHECK(Token(std::string(kMaxTokenBytes, 'q'))->Fingerprint() !=
        Token(std::string(kMaxTokenBytes - 1, 'q'))->Fingerprint());
}

TEST_CASE("Tokens and nonces come from the source that was handed in, and its end is an error") {
  const RandomSource sevens = [](MutableBytes bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
    return true;
  };
  const RandomSource dry = [](MutableBytes) { return false; };
  CHECK(*MakeTokenText(sevens) == Hex(std::vector<std::byte>(32, std::byte{7})));
  CHECK(MakeTokenText(dry).error().code() == ErrorCode::kResource);
  CHECK(Hex(*(*JobToken::Make("secret", "", sevens))->DrawNonce()) == Hex(std::vector<std::byte>(16, std::byte{7})));
  CHECK((*JobToken::Make("secret", "", dry))->DrawNonce().error().code() == ErrorCode::kResource);
}

TEST_CASE("The machine's own tokens and nonces are of the right shape and never the same") {
  std::set<std::string> texts, nonces;
  const auto token = Token("secret");
  for (int i = 0; i < 100; ++i) {
    const auto text = MakeTokenText();
    REQUIRE(text);
    CHECK(text->size() == 64);
    CHECK(Token(*text));
    texts.insert(*text);
    nonces.insert(Hex(*token->DrawNonce()));
  }
  CHECK(texts.size() == 100);
  CHECK(nonces.size() == 100);
}

}  // namespace access_test
}  // namespace rondo
