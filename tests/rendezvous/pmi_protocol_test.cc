// Tests PMI-1 and PMI-2 with messages that were recorded from Hydra (MPICH 4.0.2) and Slurm 22.05.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/launchers/pmi1_protocol.h"
#include "rendezvous/launchers/pmi2_protocol.h"
#include "rendezvous/launchers/store_line.h"

namespace rondo {
namespace pmi_protocol_test {

constexpr char kKvs[] = "kvs_19947_0_1784854662_vm";

TEST_CASE("What is asked by PMI-1") {
  CHECK(pmi1::Init() == "cmd=init pmi_version=1 pmi_subversion=1\n");
  CHECK(pmi1::GetMyKvsName() == "cmd=get_my_kvsname\n");
  CHECK(pmi1::Put("7.0", "rondo-0", "at:1.2.3.4:1,[::1%eth0]:5") ==
        "cmd=put kvsname=7.0 key=rondo-0 value=at:1.2.3.4:1,[::1%eth0]:5\n");
  CHECK(pmi1::BarrierIn() == "cmd=barrier_in\n");
  CHECK(pmi1::Get("7.0", "rondo-0") == "cmd=get kvsname=7.0 key=rondo-0\n");
  CHECK(pmi1::Finalize() == "cmd=finalize\n");
}

TEST_CASE("What is asked by PMI-2: lengths padded on the left, semicolons doubled") {
  CHECK(pmi2::Init() == "cmd=init pmi_version=2 pmi_subversion=0\n");
  CHECK(pmi2::FullInit("6.0", 1) == "    51cmd=fullinit;pmijobid=6.0;pmirank=1;threaded=FALSE;");
  CHECK(pmi2::KvsPut("rondo-0", "a;b=c") == "    37cmd=kvs-put;key=rondo-0;value=a;;b=c;");
  CHECK(pmi2::KvsFence() == "    14cmd=kvs-fence;");
  CHECK(pmi2::KvsGet("6.0", "rondo-0") == "    43cmd=kvs-get;jobid=6.0;srcid=-1;key=rondo-0;");
  CHECK(pmi2::Finalize() == "    13cmd=finalize;");
}

using Take = Result<std::optional<PmiReply>> (*)(std::string& unread);

// Feeds the bytes one by one; each answer must be complete exactly at its last byte.
std::vector<PmiReply> TakeByteByByte(Take take, const std::vector<std::string>& answers) {
  std::vector<PmiReply> replies;
  std::string unread;
  for (const std::string& answer : answers) {
    for (std::size_t i = 0; i < answer.size(); ++i) {
      unread += answer[i];
      auto reply = take(unread);
      REQUIRE_MESSAGE(reply.has_value(), reply.error().ToString());
      CHECK(reply->has_value() == (i + 1 == answer.size()));
      if (*reply) replies.push_back(std::move(**reply));
    }
    CHECK(unread.empty());
  }
  return replies;
}

TEST_CASE("PMI-1 as Hydra and Slurm answer it") {
  const auto replies = TakeByteByByte(pmi1::TakeReply, {
                                                           "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                                                           "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
                                                           std::string("cmd=my_kvsname kvsname=") + kKvs + "\n",
                                                           "cmd=my_kvsname rc=0 kvsname=7.0\n",
                                                           "cmd=put_result rc=0 msg=success\n",
                                                           "cmd=barrier_out\n",
                                                           "cmd=get_result rc=0 msg=success value=at:[::1]:5=6\n",
                                                           "cmd=finalize_ack\n",
                                                       });
  CHECK(replies[0].Check("response_to_init"));
  CHECK(replies[1].Check("response_to_init"));
  CHECK(replies[2].Field("kvsname") == kKvs);
  CHECK(replies[3].Field("kvsname") == "7.0");
  CHECK(replies[4].Check("put_result"));
  CHECK(replies[5].Check("barrier_out"));
  CHECK(replies[6].Field("value") == "at:[::1]:5=6");
  CHECK(replies[7].Check("finalize_ack"));
}

TEST_CASE("PMI-2 as Slurm answers it, and with lengths padded as the specification has them") {
  const auto replies = TakeByteByByte(
      pmi2::TakeReply,
      {
          ("114   cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=-1;debugged=FALSE;"
           "pmiverbose=FALSE;"),
          "26    cmd=kvs-put-response;rc=0;",
          "    28cmd=kvs-fence-response;rc=0;",
          "70    cmd=kvs-get-response;rc=0;found=TRUE;value=at:1.2.3.4:0,,[::1%eth0]:5;",
          "38    cmd=kvs-get-response;rc=0;found=FALSE;",
          "    48cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;",
      });
  CHECK(replies[0].Check("fullinit-response"));
  CHECK(replies[0].Field("size") == "2");
  CHECK(replies[1].Check("kvs-put-response"));
  CHECK(replies[2].Check("kvs-fence-response"));
  CHECK(replies[3].Field("value") == "at:1.2.3.4:0,,[::1%eth0]:5");
  CHECK(replies[4].Field("value").empty());
  CHECK(replies[5].Field("value") == "a;b");
}

TEST_CASE("Several answers at once are taken one at a time") {
  std::string unread = "cmd=put_result rc=0\ncmd=barrier_out\ncmd=get";
  CHECK((*pmi1::TakeReply(unread))->command == "put_result");
  CHECK((*pmi1::TakeReply(unread))->command == "barrier_out");
  CHECK(!*pmi1::TakeReply(unread));
  unread = "26    cmd=kvs-put-response;rc=0;28    cmd=kvs-fence-response;rc=0;1";
  CHECK((*pmi2::TakeReply(unread))->command == "kvs-put-response");
  CHECK((*pmi2::TakeReply(unread))->command == "kvs-fence-response");
  CHECK(!*pmi2::TakeReply(unread));
}

TEST_CASE("An answer that says that it failed, or is another one, is an error with the server's words") {
  std::string unread = "cmd=get_result rc=-1 msg=key_none_not_found value=unknown\n";
  const auto missing = *pmi1::TakeReply(unread);
  const Status failed = missing->Check("get_result");
  REQUIRE(!failed);
  CHECK(failed.error().code() == ErrorCode::kProtocol);
  CHECK(failed.error().message().find("rc=-1: key_none_not_found") != std::string::npos);
  CHECK(missing->Check("barrier_out").error().message().find("expected 'barrier_out'") != std::string::npos);

  unread = "    44cmd=fullinit-response;rc=3;errmsg=no;; sorry;";
  unread.replace(0, 6, "    " + std::to_string(unread.size() - 6));
  CHECK((*pmi2::TakeReply(unread))->Check("fullinit-response").error().message().find("rc=3: no; sorry") !=
        std::string::npos);
}

TEST_CASE("Bytes of something else are refused, and never an endless wait") {
  for (std::string unread : {std::string("HTTP/1.1 400\n"), std::string("\n"), std::string(kMaxPmiReplyBytes + 1, 'x'),
                             "cmd=" + std::string(kMaxPmiReplyBytes, 'x') + "\n"}) {
    const auto reply = pmi1::TakeReply(unread);
    REQUIRE(!reply);
    CHECK(reply.error().code() == ErrorCode::kProtocol);
  }
  for (std::string unread : {"HTTP/1", "999999", "    -1", "      ", "3  4  cmd", "    12cmd=finalize", "     4rc=0"}) {
    CAPTURE(unread);
    const auto reply = pmi2::TakeReply(unread);
    REQUIRE(!reply);
    CHECK(reply.error().code() == ErrorCode::kProtocol);
  }
}

TEST_CASE("Where a store is survives its trip, in one word that every launcher carries") {
  const StoreLine line{.addresses = {{"10.0.0.1", 40211}, {"fe80::1%eth0", 1}}, .failure = ""};
  const std::string word = Encode(line, kMaxPmiValueBytes);
  CHECK(word == "at:10.0.0.1:40211,[fe80::1%eth0]:1");
  const auto back = DecodeStoreLine(word);
  REQUIRE(back);
  REQUIRE(back->addresses.size() == 2);
  CHECK(back->addresses[1].host == "fe80::1%eth0");
  CHECK(back->addresses[1].port == 1);

  const std::string reason = "resource: no descriptor; 100% used\n";
  const std::string failed = Encode({.addresses = {}, .failure = reason}, kMaxPmiValueBytes);
  CHECK(failed.find_first_of(" ;\n") == std::string::npos);
  CHECK(DecodeStoreLine(failed)->failure == reason);
}

TEST_CASE("What has no room is left out, whole") {
  StoreLine line;
  for (int i = 0; i < 100; ++i) line.addresses.push_back({"192.168.100." + std::to_string(i), 40211});
  const std::string word = Encode(line, 200);
  CHECK(word.size() <= 200);
  CHECK(DecodeStoreLine(word)->addresses.size() >= 8);
  const std::string failed = Encode({.addresses = {}, .failure = std::string(500, ' ')}, 200);
  CHECK(failed.size() <= 200);
  CHECK(DecodeStoreLine(failed)->failure == std::string(DecodeStoreLine(failed)->failure.size(), ' '));
}

TEST_CASE("Words that say nothing are refused") {
  for (const char* word : {"", "at:", "at:,", "at:nohost", "tcp://a:1", "again"}) {
    CAPTURE(word);
    REQUIRE(!DecodeStoreLine(word));
  }
}

TEST_CASE("A failure without words is refused: a line has an address or a reason") {
  for (const char* word : {"failed:", "at:"}) {
    CAPTURE(word);
    const auto line = DecodeStoreLine(word);
    REQUIRE(!line);
    CHECK(line.error().code() == ErrorCode::kProtocol);
  }
}

TEST_CASE("What only looks like an escape is taken as it stands") {
  CHECK(DecodeStoreLine("failed:%4g")->failure == "%4g");
  CHECK(DecodeStoreLine("failed:100%")->failure == "100%");
  CHECK(DecodeStoreLine("failed:%2")->failure == "%2");
  CHECK(DecodeStoreLine("failed:%41")->failure == "A");
}

}  // namespace pmi_protocol_test
}  // namespace rondo
