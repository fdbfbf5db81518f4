// The state that a communicator keeps for each of its peers: what the peer has sent, and what this rank has sent to it.
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
  bool goodbye_sent = false;  // this rank has sent the peer a goodbye
  bool is_notified = false;   // this rank has sent the peer a notice of this rank's failure
  // the peer has sent a notice of failure, so the end of its connection does not mean that it died
  bool has_failed = false;
  bool is_lost = false;  // the peer's connection ended, and the peer had sent neither a goodbye nor a notice of failure
};

class Peers {
 public:
  Peers(Rank self, int world_size) : self_(self), peers_(static_cast<std::size_t>(world_size)) {}

  // ---- what peers send ----
  void OnReceived(Rank from, TimePoint now);  // any control message
  void OnReport(Rank from, const ProgressReport& report);
  void OnGoodbye(Rank from, Goodbye goodbye);
  void OnFailureNotice(Rank from);
  // Call it when a peer's connection has ended as if the peer's process had died.
  void OnLost(Rank peer);
  // Call it when a peer had ended before a connection with it was made. It is not known yet whether the peer had left
  // with a goodbye.
  void OnEndedBefore(Rank peer, Error error);
  // Returns the peers that were passed to OnEndedBefore, each once.
  std::vector<std::pair<Rank, Error>> TakeEndedBefore();
  bool has_ended_before() const { return has_ended_before_.load(std::memory_order_acquire); }
  // Call it when a peer cannot be reached, perhaps only because it has given up this communicator. Keeps only the first
  // such error, and pointers to it then stay valid. Returns whether it kept `error`.
  bool KeepEarlyLoss(Error error);
  const Error* early_loss() const { return has_early_loss_.load(std::memory_order_acquire) ? &*early_loss_ : nullptr; }

  // ---- what this rank sends ----
  // Calls `send`(rank), without the lock, for each rank of `to` whose flag `sent` is not set yet, and sets the flag if
  // `send` returns true. Returns whether any `send` returned true.
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

  // ---- queries ----
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
  // Whether there is a peer to which this rank has sent no goodbye, and from which none has arrived. After this rank
  // has closed, such a peer may still connect to it, or look for its goodbye.
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
  std::atomic<bool> has_early_loss_{false};  // if true, early_loss_ does not change any more
};

}  // namespace rondo
