// The state that a communicator keeps for each of its peers: what the peer has sent, and what it has got.
//
// Thread rule: any thread. The lock is a leaf: no other code is called while it is held, except by ForEachDeparted.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "collectives/communicator/control.h"
#include "collectives/communicator/suspicion.h"

namespace rondo {

struct Peer {
  PeerView view = {};         // what the peer has sent
  bool goodbye_sent = false;  // this rank has sent it a goodbye
  bool is_notified = false;   // this rank has sent it a notice of its own failure
  bool has_failed = false;    // it has sent a notice of failure; then the end of its connection is not its death
  bool is_lost = false;       // its connection ended without a goodbye, and it had not sent a notice of failure
};

class Peers {
 public:
  Peers(Rank self, int world_size) : self_(self), peers_(static_cast<std::size_t>(world_size)) {}

  // ---- what peers send ----
  void OnReceived(Rank from, TimePoint now);  // any control message
  void OnReport(Rank from, const ProgressReport& report);
  void OnGoodbye(Rank from, Goodbye goodbye);
  void OnFailureNotice(Rank from);
  // The connection of the peer ended as it does if its process ends.
  void OnLost(Rank peer);
  // The peer had ended before a connection with it was made. Whether it had left is not known yet.
  void OnEndedBefore(Rank peer, Error error);
  // Returns those peers, each once.
  std::vector<std::pair<Rank, Error>> TakeEndedBefore();
  bool has_ended_before() const { return has_ended_before_.load(std::memory_order_acquire); }
  // A peer cannot be reached, perhaps only because it has given up this communicator. Keeps only the first such error;
  // its address then stays valid. Returns whether it kept this one.
  bool KeepEarlyLoss(Error error);
  const Error* early_loss() const { return has_early_loss_.load(std::memory_order_acquire) ? &*early_loss_ : nullptr; }

  // ---- what this rank sends ----
  // Calls `send`(rank), without the lock, for each rank of `to` whose flag `sent` is not set yet, and sets the flag if
  // `send` returns true. Returns whether any `send` did.
  template <typename Send>
  bool SendOnce(bool Peer::*sent, std::span<const Rank> to, const Send& send) {
    bool any = false;
    for (const Rank peer : to) {
      {
        const std::lock_guard lock(mutex_);
        if (At(peer).*sent) continue;
      }
      if (!send(peer)) continue;
      any = true;
      const std::lock_guard lock(mutex_);
      At(peer).*sent = true;
    }
    return any;
  }

  void OnNotified(Rank peer);

  // ---- questions ----
  PeerView ViewOf(Rank peer) const;
  // Calls `judge`(peer, view) for each peer, without the lock, until one call returns an error; returns that error.
  template <typename Judge>
  std::optional<Error> FirstError(const Judge& judge) const {
    for (std::size_t peer = 0; peer < peers_.size(); ++peer)
      if (std::optional<Error> found = judge(static_cast<Rank>(peer), ViewOf(static_cast<Rank>(peer)))) return found;
    return std::nullopt;
  }
  // Calls `departed`(rank), with the lock held, for every peer that has sent a goodbye.
  template <typename Departed>
  void ForEachDeparted(const Departed& departed) const {
    const std::lock_guard lock(mutex_);
    for (std::size_t peer = 0; peer < peers_.size(); ++peer)
      if (peers_[peer].view.goodbye) departed(static_cast<Rank>(peer));
  }
  // The ranks from which no goodbye has arrived, ascending, among the `connected` peers and the peers to which this
  // rank has sent a goodbye. The latter may no longer be connected.
  std::vector<Rank> WithoutGoodbye(std::vector<Rank> connected) const;
  // Whether some peer may still connect to this rank, or look for its goodbye, after this rank has closed: one to which
  // this rank has sent no goodbye, and from which none has arrived.
  bool HasUnreached() const;
  // Whether there is a peer that this rank has not notified of its failure, and that may still need the notice: it has
  // not failed, is not lost, and has not left.
  bool HasUnnotified() const;
  std::vector<Rank> Lost() const;  // ascending

 private:
  Peer& At(Rank peer) { return peers_[static_cast<std::size_t>(peer)]; }
  const Peer& At(Rank peer) const { return peers_[static_cast<std::size_t>(peer)]; }

  const Rank self_;
  mutable std::mutex mutex_;  // guards the following fields
  std::vector<Peer> peers_;   // indexed by rank; the size is constant
  std::vector<std::pair<Rank, Error>> ended_before_;
  std::atomic<bool> has_ended_before_{false};
  std::optional<Error> early_loss_;
  std::atomic<bool> has_early_loss_{false};  // from then on early_loss_ is constant
};

}  // namespace rondo
