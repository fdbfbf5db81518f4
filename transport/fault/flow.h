// One direction of one proxied connection. It holds the arrived bytes, applies the toxics, and decides which bytes may
// be sent when. Sans-I/O: the proxy moves the bytes and passes the time in, so every toxic is tested without sockets
// and without waiting.
//
// Random values (a jitter, the bit to flip) depend only on the flow's seed, the toxic's number and the stream offset.
// They do not depend on the sizes of the kernel's reads.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/fault/toxic.h"

namespace rondo::fault {

// Identifies a flow. A toxic affects the flow if its scope includes this listener, direction and connection. The name
// of the stream is set later, or never (Flow::Name).
struct FlowIdentity {
  std::string listener;
  Way way = Way::kToServer;      // not kBoth
  std::uint64_t connection = 1;  // the number of the connection at its listener, from 1
  std::uint64_t seed = 1;
};

class Flow {
 public:
  enum class End : std::uint8_t { kFin, kReset };

  struct Step {
    enum class Kind : std::uint8_t {
      kNothing,  // nothing to do until bytes arrive or the toxics change
      kWait,     // nothing to do until `until`
      kSend,     // send `bytes`, or some bytes from its front; then call Sent
      kEnd,      // send the FIN; returned once
      kReset,    // reset both ends; returned once
      kOver,     // after kEnd or kReset
    };
    Kind kind = Kind::kNothing;
    TimePoint until{};
    Bytes bytes{};  // valid until the next call of any function except Next
  };

  Flow(FlowIdentity identity, std::size_t buffer_bytes);

  // ---- the toxics ----
  // Adds a toxic. It is ignored if its scope cannot include this flow.
  void Add(std::shared_ptr<Toxicity> toxicity);
  void Remove(const Toxicity& toxicity);
  // Sets the stream's name. Byte 0 of the stream is byte `begin` of this direction.
  void Name(std::string stream, std::uint64_t begin);
  bool has_name() const { return stream_.has_value(); }
  // While the flow is held, no byte passes, as with the toxic Timeout.
  void Hold(bool held) { held_ = held; }
  bool held() const { return held_; }

  // ---- arriving bytes: at most room() may arrive now; bytes that arrive after the end of the flow are dropped ----
  std::size_t room() const;
  // REQUIRES: at most room() bytes.
  void Arrive(Bytes bytes, TimePoint now);
  void ArriveEnd(End end, TimePoint now);

  // ---- leaving bytes ----
  Step Next(TimePoint now);
  // REQUIRES: at most as many bytes as the latest Next returned, and no other call since that Next.
  void Sent(std::size_t bytes, TimePoint now);

  // Whether a Hold or a Timeout kept bytes back in the latest Next.
  bool withholds() const { return withholds_; }
  bool over() const { return over_; }

 private:
  struct Use {
    std::shared_ptr<Toxicity> toxicity;
    bool noted = false;              // true: the toxic fires only once, and has fired for this flow
    std::optional<TimePoint> since;  // when the toxic (docs/FAULTS.md) took effect
  };
  struct Piece {
    std::vector<std::byte> bytes;
    std::size_t begin = 0;  // bytes before this index have been sent
    TimePoint due{};
    std::size_t size() const { return bytes.size() - begin; }
  };

  // The stream offset from which the scope counts bytes; empty if it is not known, or if the scope does not include
  // this stream.
  std::optional<std::uint64_t> OriginFor(const Scope& scope) const;
  bool IsAt(const Scope& scope, std::uint64_t offset) const;
  // The first toxic of the type `Kind` whose scope includes the byte at `offset`; null: there is none.
  template <typename Kind>
  Use* Find(std::uint64_t offset);
  // The next offset after `offset` at which a toxic begins or ends.
  std::uint64_t NextEdge(std::uint64_t offset) const;
  TimePoint DueAt(std::uint64_t offset, TimePoint now);
  std::uint64_t Draw(const Toxicity& toxicity, std::uint64_t offset) const;
  Step Withhold(Use& use, TimePoint now);
  Step NextEnd(TimePoint now);
  Step Finish(Step::Kind kind);
  void CorruptFront();

  const FlowIdentity identity_;
  const std::size_t buffer_bytes_;
  std::vector<Use> uses_;
  std::optional<std::string> stream_;
  std::uint64_t stream_begin_ = 0;
  bool held_ = false;
  bool withholds_ = false;

  std::deque<Piece> pieces_;
  std::size_t buffered_ = 0;
  std::uint64_t arrived_ = 0;  // arrived_ and sent_ are stream offsets; sent_ <= arrived_
  std::uint64_t sent_ = 0;
  // The due time of the latest piece; later pieces are not due earlier, so bytes stay in order.
  TimePoint last_due_{};
  TimePoint free_at_{};  // until this time no byte is sent, because of a Slicer or Bandwidth
  std::optional<End> end_;
  TimePoint end_due_{};
  bool over_ = false;
};

}  // namespace rondo::fault
