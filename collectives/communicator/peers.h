// What a communicator knows of each of its peers, and what it has sent them.
//
// Thread rule: any thread. The lock is a leaf: nothing else is called while it is held, but for ForEachDeparted.
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
  PeerView view = {};         // what it has sent
  bool goodbye_sent = false;  // by this rank
  bool is_notified = false;   // of this rank's failure, by this rank
  bool has_failed = false;    // it sent a notice of failure; if its connection then ends, it need not be dead
  bool is_lost = false;       // its connection ended without a goodbye, and it has not failed before
};

class Peers {
 public:
  Peers(Rank self, int world_size) : self_(self), peers_(static_cast<std::size_t>(world_size)) {}

  // ---- what peers send ----
  void OnReceived(Rank from, TimePoint now);  // anything
  void OnReport(Rank from, const ProgressReport& report);
  void OnGoodbye(Rank from, Goodbye goodbye);
  void OnFailureNotice(Rank from);
  // The process of the peer has ended.
  void OnLost(Rank peer);
  // The peer had ended before a connection with it was made: whether it has left is to be found out.
  void OnEndedBefore(Rank peer, Error error);
  // Those peers, each once.
  std::vector<std::pair<Rank, Error>> TakeEndedBefore();
  bool has_ended_before() const { return has_ended_before_.load(std::memory_order_acquire); }
  // A peer is out of reach that may only have given up this communicator. Only the first such error is kept, and stays
  // where it is. Whether it is this one.
  bool KeepEarlyLoss(Error error);
  const Error* early_loss() const { return has_early_loss_.load(std::memory_order_acquire) ? &*early_loss_ : nullptr; }

  // ---- what this rank sends ----
  // Calls `send`(rank), without the lock, for all of `to` that nothing was sent of what `sent` notes; true: it is sent
  // now. Whether it was true of any.
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
  // What `judge`(peer, view), called without the lock, says of the first peer of which it says anything.
  template <typename Judge>
  std::optional<Error> FirstError(const Judge& judge) const {
    for (std::size_t peer = 0; peer < peers_.size(); ++peer)
      if (std::optional<Error> found = judge(static_cast<Rank>(peer), ViewOf(static_cast<Rank>(peer)))) return found;
    return std::nullopt;
  }
  // Calls `departed`(rank), with the lock, for every peer that has said goodbye.
  template <typename Departed>
  void ForEachDeparted(const Departed& departed) const {
    const std::lock_guard lock(mutex_);
    for (std::size_t peer = 0; peer < peers_.size(); ++peer)
      if (peers_[peer].view.goodbye) departed(static_cast<Rank>(peer));
  }
  // Of the `connected` peers, and of those that this rank sent a goodbye to, who may be connected no more, all from
  // which no goodbye has arrived. Ascending.
  std::vector<Rank> WithoutGoodbye(std::vector<Rank> connected) const;
  // Whether there is a peer that may connect to this rank, or look for it, after this rank has closed: no goodbye has
  // gone to it, and none has come from it.
  bool HasUnreached() const;
  // Whether a peer is left that this rank has not notified of its failure, and that may still want to know.
  bool HasUnnotified() const;
  std::vector<Rank> Lost() const;  // ascending

 private:
  Peer& At(Rank peer) { return peers_[static_cast<std::size_t>(peer)]; }
  const Peer& At(Rank peer) const { return peers_[static_cast<std::size_t>(peer)]; }

  const Rank self_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Peer> peers_;   // by rank; their number is constant
  std::vector<std::pair<Rank, Error>> ended_before_;
  std::atomic<bool> has_ended_before_{false};
  std::optional<Error> early_loss_;
  std::atomic<bool> has_early_loss_{false};  // from then on early_loss_ is constant
};

}  // namespace rondo
