// transport/ib: the address that a rank publishes, and the messages of two ranks before they use RDMA.
#include <algorithm>

#include "base/printable.h"
#include "tests/fuzz/harness.h"
#include "transport/ib/address.h"
#include "transport/ib/path_message.h"

namespace rondo::fuzz::rdma_setup_fuzz {
void CheckAddress(std::string_view input) {
  const auto address = ib::DecodeIbAddress(input);
  CheckError(address);
  if (!address) return;
  RONDO_HOLDS(IsPrintable(address->port));
  // The port is not compared, because escaping makes unprintable text longer, and the text is then cut.
  const auto again = ib::DecodeIbAddress(Encode(*address));
  RONDO_HOLDS(again && again->host_id == address->host_id && again->base == address->base);
}

void CheckMessage(std::string_view input) {
  ib::PathMessageBytes bytes{};
  std::copy_n(AsBytes(input).begin(), std::min(input.size(), bytes.size()), bytes.begin());
  const auto message = ib::Decode(bytes);
  CheckError(message);
  if (!message) return;
  RONDO_HOLDS(IsPrintable(message->why));
  ib::PathMessageBytes written;
  Encode(*message, written);
  const auto again = ib::Decode(written);
  RONDO_HOLDS(again && again->word == message->word && again->end == message->end &&
              again->remote_ring == message->remote_ring && again->progress == message->progress &&
              again->ports == message->ports && again->your_fault == message->your_fault);
}

Corpus HarnessCorpus() {
  Corpus corpus;
  corpus.seeds.push_back(
      Encode(ib::IbAddress{.host_id = "boot-net", .port = "mlx5_0:1 RoCE v2 10.0.0.1 (eth1)", .base = "base"}));
  for (const ib::PathWord word : {ib::PathWord::kOffer, ib::PathWord::kPlain, ib::PathWord::kBroken}) {
    ib::PathMessageBytes bytes;
    Encode(ib::PathMessage{.word = word, .end = {}, .remote_ring = {}, .progress = {}, .why = "no memory"}, bytes);
    corpus.seeds.push_back(ToText(bytes));
  }
  corpus.words = {"ib01", "rndo-ib2"};
  return corpus;
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  CheckAddress(input);
  CheckMessage(input);
  allocations.CheckLargest(8192 + 64 * input.size());
}

}  // namespace rondo::fuzz::rdma_setup_fuzz
