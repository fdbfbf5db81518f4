#include "collectives/communicator/peers.h"

#include <algorithm>

namespace rondo {

void Peers::OnReceived(Rank from, TimePoint now) {
  const std::lock_guard lock(mutex_);
  At(from).view.last_received_at = now;
}

void Peers::OnReport(Rank from, const ProgressReport& report) {
  const std::lock_guard lock(mutex_);
  At(from).view.report = report;
}

void Peers::OnGoodbye(Rank from, Goodbye goodbye) {
  const std::lock_guard lock(mutex_);
  At(from).view.goodbye = std::move(goodbye);
}

void Peers::OnFailureNotice(Rank from) {
  const std::lock_guard lock(mutex_);
  At(from).has_failed = true;
}

void Peers::OnLost(Rank peer) {
  const std::lock_guard lock(mutex_);
  At(peer).is_lost = !At(peer).has_failed;
}

void Peers::OnEndedBefore(Rank peer, Error error) {
  const std::lock_guard lock(mutex_);
  ended_before_.emplace_back(peer, std::move(error));
  has_ended_before_.store(true, std::memory_order_release);
}

std::vector<std::pair<Rank, Error>> Peers::TakeEndedBefore() {
  const std::lock_guard lock(mutex_);
  has_ended_before_.store(false, std::memory_order_release);
  return std::exchange(ended_before_, {});
}

bool Peers::KeepEarlyLoss(Error error) {
  const std::lock_guard lock(mutex_);
  if (early_loss_) return false;
  early_loss_ = std::move(error);
  has_early_loss_.store(true, std::memory_order_release);
  return true;
}

void Peers::OnNotified(Rank peer) {
  const std::lock_guard lock(mutex_);
  At(peer).is_notified = true;
}

PeerView Peers::ViewOf(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return At(peer).view;
}

std::vector<Rank> Peers::WithoutGoodbye(std::vector<Rank> connected) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t peer = 0; peer < peers_.size(); ++peer)
    if (peers_[peer].goodbye_sent) connected.push_back(static_cast<Rank>(peer));
  std::sort(connected.begin(), connected.end());
  connected.erase(std::unique(connected.begin(), connected.end()), connected.end());
  std::erase_if(connected, [&](Rank peer) { return At(peer).view.goodbye.has_value(); });
  return connected;
}

bool Peers::HasUnreached() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (static_cast<Rank>(rank) != self_ && !peer.goodbye_sent && !peer.view.goodbye) return true;
  }
  return false;
}

bool Peers::HasUnnotified() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    const bool may_want_to_know = !peer.has_failed && !peer.is_lost && !peer.view.goodbye;
    if (static_cast<Rank>(rank) != self_ && !peer.is_notified && may_want_to_know) return true;
  }
  return false;
}

std::vector<Rank> Peers::Lost() const {
  std::vector<Rank> lost;
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (static_cast<Rank>(rank) != self_ && peers_[rank].is_lost) lost.push_back(static_cast<Rank>(rank));
  return lost;
}

}  // namespace rondo
