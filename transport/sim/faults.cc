// The faults of the simulated network: deaths, partitions, resets, flipped bits, stopped processes.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "transport/sim/core.h"

namespace rondo {

void SimCore::Tell(const std::string& fault) const {
  if (notifier) notifier(options_.clock->Now(), fault);
}

void SimCore::ScheduleFault(TimePoint at, const Item& item, std::function<void()> action) {
  Schedule(at, item, [this, healings = healings_, action = std::move(action)] {
    if (healings == healings_) action();
  });
}

// ---- death ----

void SimCore::Kill(Rank rank) {
  if (killed_[rank]) return;
  Tell(fmt::format("rank {} is killed", rank));
  killed_[rank] = true;
  ++counters.kills;
  touched_.Add(rank);
  auto waiting =
      std::exchange(wait_to_run_[static_cast<std::size_t>(rank)], {});  // each action checks whether the rank is dead
  for (auto& [name, station] : stations_) {
    if (name.place.network_rank == rank)
      for (auto& answer : std::exchange(station->held, {})) waiting.push_back(std::move(answer));
    if (name.place.network_rank != rank || station->closed) continue;
    if (const auto cables = cables_.find(station.get()); cables != cables_.end())
      for (auto& [weak, side] : cables->second)
        if (const auto cable = weak.lock()) {
          // Bytes that the rank has written still arrive, so they are read now.
          ReadSources(cable->pipes[side], cable->pipes[side].accepted);
          End(cable, side, SimEnd::kGone);
        }
    for (auto& [peer_rank, peer] : station->peers)
      if (!peer.goodbye_sent && peer.is_known_there()) SendLoss(station, peer, "it was killed");
  }
  for (const auto& action : waiting) action();
}

// ---- stopped processes ----

void SimCore::Pause(Rank rank, TimePoint at, TimePoint until) {
  ScheduleFault(at, {Kind::kFault, rank, rank, 1}, [this, rank, until] {
    if (killed_[rank]) return;
    Tell(fmt::format("rank {} is stopped", rank));
    ++counters.pauses;
    ++pauses_[rank];
    if (until < TimePoint::max()) ScheduleFault(until, {Kind::kFault, rank, rank, 2}, [this, rank] { Resume(rank); });
  });
}

void SimCore::Resume(Rank rank) {
  if (--pauses_[rank] > 0) return;
  Tell(fmt::format("rank {} continues", rank));
  touched_.Add(rank);
  for (const auto& action : std::exchange(wait_to_run_[static_cast<std::size_t>(rank)], {})) action();
  // Observers are called after this loop, because they may make stations.
  std::vector<std::shared_ptr<SimStation>> its;
  for (const auto& [name, station] : stations_)
    if (name.place.network_rank == rank && station->open) its.push_back(station);
  for (const auto& station : its) {
    station->Touch();
    TellObserver(*station);
  }
}

// ---- partitions ----

bool SimCore::IsNetworks(Kind kind) const {
  switch (kind) {
    case Kind::kDeliver:
    case Kind::kAck:
    case Kind::kEnd:
    case Kind::kConnect:
    case Kind::kControl:
    case Kind::kLoss:
    case Kind::kReply: return true;
    case Kind::kAction:
    case Kind::kKill:
    case Kind::kOpen:
    case Kind::kTimer:
    case Kind::kFault: break;
  }
  return false;
}

void SimCore::Partition(std::vector<std::pair<Rank, Rank>> links, TimePoint at, TimePoint until) {
  const Item item{Kind::kFault, links.empty() ? kNoRank : links.front().first, kNoRank, links.size()};
  ScheduleFault(at, item, [this, item, links = std::move(links), until] {
    for (const auto& [from, to] : links) Block(from, to);
    if (until == TimePoint::max()) return;
    ScheduleFault(until, item, [this, links] {
      for (const auto& [from, to] : links) Unblock(from, to);
    });
  });
}

void SimCore::Block(Rank from, Rank to) {
  const std::size_t link = LinkOf({Kind::kFault, from, to, 0});
  if (blocks_[link]++ > 0) return;
  Tell(fmt::format("nothing from rank {} reaches rank {} any longer", from, to));
  Schedule(Later(clock()->Now(), options_.silence_timeout), {Kind::kTimer, from, to, 0},
           [this, from, to, link, number = ++block_numbers_[link]] {
             if (blocks_[link] > 0 && block_numbers_[link] == number) FallSilent(from, to);
           });
}

void SimCore::Unblock(Rank from, Rank to) {
  const std::size_t link = LinkOf({Kind::kFault, from, to, 0});
  if (--blocks_[link] > 0) return;
  Tell(fmt::format("rank {} reaches rank {} again", from, to));
  // Events that were held back arrive now, in their order. Later events arrive after them.
  std::vector<Event> due = std::exchange(held_back_[link], {});
  if (due.empty()) return;
  const auto later = std::partition(queue_.begin(), queue_.end(), [&](const Event& event) {
    return !IsNetworks(event.item.kind) || LinkOf(event.item) != link;
  });
  std::sort(later, queue_.end(), [](const Event& a, const Event& b) { return IsLater(b, a); });
  std::move(later, queue_.end(), std::back_inserter(due));
  queue_.erase(later, queue_.end());
  std::make_heap(queue_.begin(), queue_.end(), IsLater);
  TimePoint at = clock()->Now();
  for (Event& event : due) {
    event.at = at = std::max(event.at, at + Duration(1));
    link_free_[link] = std::max(link_free_[link], at);
    Push(std::move(event));
  }
}

// Each of the two ranks loses the other, as by TCP's user timeout and keepalive.
void SimCore::FallSilent(Rank one, Rank other) {
  Tell(fmt::format("the connections between ranks {} and {} have been silent for too long", one, other));
  ++counters.silences;
  const std::string how = fmt::format("nothing was received from it for {:.0f} s",
                                      std::chrono::duration<double>(options_.silence_timeout).count());
  std::vector<std::shared_ptr<SimStation>> stations;
  for (const auto& [name, station] : stations_)
    if ((name.place.network_rank == one || name.place.network_rank == other) && !station->closed)
      stations.push_back(station);
  for (const auto& station : stations) {
    const Rank far = station->network_rank == one ? other : one;
    if (const auto cables = cables_.find(station.get()); cables != cables_.end())
      for (const auto& [weak, side] : cables->second)
        if (const auto cable = weak.lock(); cable && cable->pipes[side].receiver->network_rank == far) Break(*cable);
    std::vector<Rank> lost;
    for (const auto& [rank, peer] : station->peers)
      if (peer.station->network_rank == far) lost.push_back(rank);
    for (const Rank rank : lost) QueueLoss(*station, rank, how);
  }
}

void SimCore::Heal() {
  ++healings_;
  kills_at_event_.clear();
  stream_faults_.clear();
  for (Rank from = 0; from < options_.world_size; ++from)
    for (Rank to = 0; to < options_.world_size; ++to)
      if (int& blocks = blocks_[LinkOf({Kind::kFault, from, to, 0})]; blocks > 0) {
        blocks = 1;
        Unblock(from, to);
      }
  for (Rank rank = 0; rank < options_.world_size; ++rank)
    if (paused(rank)) {
      pauses_[rank] = 1;
      Resume(rank);
    }
}

// ---- broken connections, flipped bits ----

void SimCore::AddStreamFault(const SimStream& stream, std::optional<std::uint64_t> cut_at, SimFlip flip) {
  stream_faults_.push_back({stream, cut_at, std::move(flip)});
}

void SimCore::Break(SimCable& cable) {
  if (std::exchange(cable.broken, true)) return;
  for (SimPipe& pipe : cable.pipes) {
    if (options_.sabotage.ignores_losses) continue;
    pipe.end = std::max(pipe.end, SimEnd::kCut);
    pipe.arrival_news = true;
    pipe.receiver->Touch();
  }
}

void SimCore::BreakControl(SimStation& one, SimStation& other, const std::string& how) {
  QueueLoss(one, other.rank, how);
  QueueLoss(other, one.rank, how);
}

bool SimCore::MeetFaults(const std::shared_ptr<SimCable>& cable, int side, std::uint64_t bytes) {
  SimPipe& pipe = cable->pipes[side];
  const Rank from = pipe.sender->network_rank;
  const Rank to = pipe.receiver->network_rank;
  for (std::size_t i = 0; i < stream_faults_.size(); ++i) {
    const auto fault = stream_faults_.begin() + static_cast<std::ptrdiff_t>(i);
    const SimStream& stream = fault->stream;
    if (stream.from != from || stream.to != to || stream.lane != cable->index ||
        stream.communicator.value_or(cable->communicator) != cable->communicator)
      continue;
    if (fault->cut_at) {
      if (pipe.delivered + bytes <= *fault->cut_at) continue;
      // Bytes before the cut count as delivered.
      pipe.delivered = std::max(pipe.delivered, *fault->cut_at);
      Tell(fmt::format("lane {} of ranks {} and {} is reset at byte {} of the first rank's stream", cable->index, from,
                       to, pipe.delivered));
      ++counters.cuts;
      Note({Kind::kFault, from, to, pipe.delivered});
      stream_faults_.erase(fault);
      Break(*cable);
      return true;
    }
    for (std::uint64_t done = 0; done < bytes;) {
      const std::size_t at = (pipe.delivered + done) % pipe.ring.size();
      const MutableBytes piece =
          MutableBytes(pipe.ring).subspan(at, std::min<std::uint64_t>(bytes - done, pipe.ring.size() - at));
      if (const auto bit = fault->flip(pipe.delivered + done, piece)) {
        const std::size_t byte = *bit / 8;
        piece[byte] ^= std::byte{1} << (*bit % 8);
        Tell(fmt::format("bit {} of byte {} on lane {} from rank {} to rank {} is flipped", *bit % 8,
                         pipe.delivered + done + byte, cable->index, from, to));
        ++counters.flips;
        Note({Kind::kFault, from, to, pipe.delivered + done + byte});
        stream_faults_.erase(fault);
        --i;  // the next element is now at index i
        break;
      }
      done += piece.size();
    }
  }
  return false;
}

bool SimCore::MeetFaults(SimStation& from, SimStation& to, std::uint64_t at, std::uint64_t bytes) {
  for (auto fault = stream_faults_.begin(); fault != stream_faults_.end(); ++fault) {
    const SimStream& stream = fault->stream;
    if (stream.from != from.network_rank || stream.to != to.network_rank || stream.lane || !fault->cut_at ||
        at + bytes <= *fault->cut_at || stream.communicator.value_or(from.communicator) != from.communicator)
      continue;
    Tell(fmt::format("the control connection of ranks {} and {} is reset", from.network_rank, to.network_rank));
    ++counters.cuts;
    Note({Kind::kFault, stream.from, stream.to, at});
    stream_faults_.erase(fault);
    BreakControl(from, to, "its control connection was reset");
    return true;
  }
  return false;
}

}  // namespace rondo
