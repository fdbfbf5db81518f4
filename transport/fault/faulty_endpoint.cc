#include "transport/fault/faulty_endpoint.h"

#include <algorithm>

namespace rondo::fault {

Result<Lane*> FaultyEndpoint::Open(Rank peer, std::uint32_t index) {
  const std::pair name{peer, index};
  if (const auto found = lanes_.find(name); found != lanes_.end()) return found->second.get();
  if (auto error = injector_->FailsOpen(self_, peer, index)) return Fail(std::move(*error));
  RONDO_ASSIGN(Lane * inner, inner_->Open(peer, index));
  return lanes_.emplace(name, std::make_unique<FaultyLane>(*inner, self_, index, injector_)).first->second.get();
}

void FaultyEndpoint::Poll(TimePoint now) {
  inner_->Poll(now);
  for (const auto& [name, lane] : lanes_) lane->Poll(now);
}

bool FaultyEndpoint::Arm() {
  bool news = inner_->Arm();
  for (const auto& [name, lane] : lanes_) news = lane->TakeNews() || news;
  return news;
}

bool FaultyEndpoint::SendControl(Rank peer, const ControlMessage& message) {
  // Only a message that would otherwise be sent counts as lost.
  const std::vector<Rank> peers = inner_->ControlPeers();
  const bool connected = std::find(peers.begin(), peers.end(), peer) != peers.end();
  if (connected && injector_->Drops(self_, peer)) return true;
  return inner_->SendControl(peer, message);
}

}  // namespace rondo::fault
