// rendezvous/launchers: answers of a launcher's PMI server, in versions 1 and 2.
#include <algorithm>

#include "rendezvous/launchers/pmi1_protocol.h"
#include "rendezvous/launchers/pmi2_protocol.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::pmi_fuzz {
using TakeReply = Result<std::optional<PmiReply>> (*)(std::string& unread);

struct Parsed {
  std::vector<std::string> replies;
  std::string error;
  friend bool operator==(const Parsed&, const Parsed&) = default;
};

Parsed Parse(TakeReply take, const std::vector<std::string_view>& pieces) {
  Parsed parsed;
  std::string unread;
  for (const std::string_view piece : pieces) {
    unread += piece;
    while (true) {
      const std::size_t before = unread.size();
      const auto reply = take(unread);
      CheckError(reply);
      if (!reply) {
        parsed.error = reply.error().ToString();
        return parsed;
      }
      if (!*reply) break;
      RONDO_HOLDS(unread.size() < before, "an answer of no bytes would be taken for ever");
      std::string text = (*reply)->command;
      for (const auto& [key, value] : (*reply)->fields) text += fmt::format("|{}={}", key, value);
      parsed.replies.push_back(std::move(text));
      CheckError((*reply)->Check("get_result"));
    }
  }
  return parsed;
}

void CheckStream(TakeReply take, std::string_view input) {
  const Allocations allocations;
  const Parsed whole = Parse(take, Pieces(input, Cut::kWhole));
  for (const Cut cut : {Cut::kBytes, Cut::kDrawn}) {
    const Parsed again = Parse(take, Pieces(input, cut));
    RONDO_HOLDS(again == whole, "{} answers and '{}', then {} and '{}'", whole.replies.size(), whole.error,
                again.replies.size(), again.error);
  }
  allocations.CheckLargest(8192 + 64 * input.size());
}

// A value of any bytes is unchanged after PMI-2 has encoded and decoded it, although the encoding doubles semicolons.
void CheckValue(std::string_view value) {
  std::string message = pmi2::KvsPut("key", value);
  const auto taken = pmi2::TakeReply(message);
  RONDO_HOLDS(taken && *taken && message.empty());
  RONDO_HOLDS((*taken)->command == "kvs-put" && (*taken)->Field("key") == "key");
  RONDO_HOLDS((*taken)->Field("value") == value, "'{}' came back as '{}'", value, (*taken)->Field("value"));
}

Corpus HarnessCorpus() {
  return {.seeds = {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                    "cmd=my_kvsname kvsname=kvs_1_0\ncmd=put_result rc=0 msg=success\n",
                    "cmd=get_result rc=-1 msg=key_rondo-0_not_found value=unknown\n",
                    "    62cmd=fullinit-response;rc=0;pmi_version=2;rank=1;size=2;a=b;;c;",
                    "30    cmd=kvs-get-response;value=v;    13cmd=finalize;", pmi2::KvsPut("key", "a;b;;c"), "     1;",
                    "      "},
          .words = {"cmd=", " rc=", "rc=0;", "value=", ";;", "errmsg=", "     0", "999999"}};
}

void CheckInput(std::string_view input) {
  CheckStream(pmi1::TakeReply, input);
  CheckStream(pmi2::TakeReply, input);
  CheckValue(input);
}

}  // namespace rondo::fuzz::pmi_fuzz
