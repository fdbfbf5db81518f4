// One direction of a lane: a bounded ring with one producer (StreamWriter) and one consumer (StreamReader), each used
// by one thread at a time.
//
// The byte at stream offset o is at ring position o % capacity. Some ranges of the stream are not in the ring, but
// their positions in the ring stay reserved. So one rule, written - consumed <= capacity, is the limit for all bytes.
// An Extent says where such bytes are:
//   lent     in the sender's memory (the reluctant mode). The receiver copies them when it reads: Peek to their ring
//            position, ReadInto straight to the destination;
//   pushed   in the receiver's memory already, in a buffer that Expect advertised.
//
// What each release/acquire pair publishes:
//   written         stored by the producer: publishes the ring bytes below it, and pushed bytes in advertised buffers
//   extents_pushed  stored by the producer: publishes the extents below it; stored before the `written` that covers
//                   them
//   consumed        stored by the consumer: ring bytes below it will not be accessed again and may be overwritten, and
//                   lent memory below it will not be read again
//   extents_popped  stored by the consumer: the extents below it may be overwritten
// `written` and `consumed` are stored sequentially consistently, as transport/doorbell.h requires of a publisher.
//
// Lent memory and advertised buffers are accessed only with `memory_mutex` held and after a check of the flag that
// revokes them. So they are safe once Revoke has held the mutex. It waits at most for one copy of the ring's capacity.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "transport/inproc/inproc.h"
#include "transport/lane.h"

namespace rondo {

// Counters that all streams of one network share. Relaxed accesses are enough, because tests read them when no thread
// runs.
struct InprocTally {
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> pushed_bytes{0};
  std::atomic<std::uint64_t> lent_bytes{0};
  std::atomic<std::uint64_t> windows_refused{0};
};

struct Stream {
  // The most ranges outside the ring, and the most advertised buffers, at a time. At these limits writes are short, and
  // Expect returns false.
  static constexpr std::size_t kMaxExtents = 256;
  static constexpr std::size_t kMaxWindows = 256;

  struct Extent {
    std::uint64_t begin = 0;  // stream offsets
    std::uint64_t end = 0;
    const std::byte* data = nullptr;
    bool pushed = false;  // false: lent
  };
  struct Window {
    std::uint64_t begin = 0;
    MutableBytes memory;
    std::uint64_t end() const { return begin + memory.size(); }
  };

  explicit Stream(std::size_t ring_bytes);

  std::byte* At(std::uint64_t offset) const { return ring.get() + offset % capacity; }
  // How many bytes from `offset` on are contiguous in the ring.
  std::size_t UntilWrap(std::uint64_t offset) const { return capacity - offset % capacity; }
  Extent& ExtentAt(std::uint64_t number) { return extents[number % kMaxExtents]; }

  // The producer's cache line.
  alignas(kLineBytes) std::atomic<std::uint64_t> written{0};
  std::atomic<std::uint64_t> extents_pushed{0};
  // The consumer's cache line.
  alignas(kLineBytes) std::atomic<std::uint64_t> consumed{0};
  std::atomic<std::uint64_t> extents_popped{0};

  // Constant after construction.
  struct FreeAligned {
    void operator()(std::byte* memory) const;
  };
  alignas(kLineBytes) const std::size_t capacity;
  const std::unique_ptr<std::byte[], FreeAligned> ring;

  std::vector<Extent> extents;  // also a ring; guarded by the two extent counters

  std::mutex memory_mutex;
  bool source_revoked = false;   // guarded by memory_mutex: lent extents must not be read
  bool windows_revoked = false;  // guarded by memory_mutex: advertised buffers must not be written
  std::deque<Window>
      windows;  // guarded by memory_mutex: advertised buffers in stream order; the producer removes passed ones
};

// The sending half. Its functions keep the contracts of the functions of the same names in transport/lane.h.
class StreamWriter {
 public:
  StreamWriter(Stream& stream, const InprocOptions& options, InprocTally& tally, Random random);

  std::size_t Write(std::span<const Bytes> pieces);
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t released() const;

  // Advances a late release.
  void Poll();
  // Whether the peer has made room in the buffer, or has read lent memory, since the owner last looked. Room that this
  // call has reported counts as seen.
  bool HasNews();
  // Whether the peer still has to read lent memory.
  bool HasLoans() const { return Releasable() < accepted_; }
  // After it returns, the peer no longer reads lent memory.
  void Revoke();

 private:
  std::size_t Room();  // loads the peer's consumed offset
  std::size_t SliceOf(std::size_t bytes);
  void CopyIn(Bytes source);
  bool Lend(Bytes source);
  // CopyOrLend and Push take a prefix of `source` and return its length, which is short if no extent is free.
  std::size_t CopyOrLend(Bytes source);
  std::size_t Push(Bytes source);
  bool PushExtent(const Stream::Extent& extent);
  void Publish();
  void NoteShort(bool sliced);
  std::uint64_t Releasable() const;

  Stream& stream_;
  InprocTally& tally_;
  const std::size_t slice_bytes_;
  const bool late_release_;
  const bool reluctant_;
  const bool push_;
  Random random_;

  std::uint64_t accepted_ = 0;
  std::uint64_t consumed_ = 0;  // the peer's offset, as last loaded
  std::uint64_t extents_pushed_ = 0;

  struct Lent {
    std::uint64_t begin;
    std::uint64_t end;
  };
  mutable std::deque<Lent> lent_;        // lent ranges that are not known to be consumed
  mutable std::uint64_t released_ = 0;   // as last returned
  bool short_ = false;                   // the last Write took only a part of its bytes,
  bool sliced_ = false;                  // although there was room,
  std::uint64_t short_at_consumed_ = 0;  // when the peer had consumed up to this offset
};

// The receiving half.
class StreamReader {
 public:
  StreamReader(Stream& stream, const InprocOptions& options, InprocTally& tally, Random random);

  Arrived Peek(std::size_t want);
  void Consume(std::size_t bytes);
  std::size_t ReadInto(MutableBytes destination);
  bool Expect(std::uint64_t stream_offset, MutableBytes destination);
  std::uint64_t consumed() const { return consumed_; }

  // Ends the stream after the bytes that are written now; later bytes of a dying sender are ignored.
  void EndHere() { end_ = stream_.written.load(std::memory_order_acquire); }
  // Whether all written bytes have been consumed, or the sender has revoked the next bytes.
  bool Exhausted() const { return truncated_ || consumed_ == Written(std::memory_order_acquire); }
  // Whether bytes have arrived that the owner has not seen. A true result counts as seen.
  bool HasNews();
  // After it returns, the peer no longer writes into advertised buffers.
  void Revoke();

 private:
  struct Run {  // contiguous bytes
    const std::byte* data = nullptr;
    std::size_t size = 0;
    bool pushed = false;
    bool lent = false;
  };
  std::uint64_t Written(std::memory_order order) const { return std::min(end_, stream_.written.load(order)); }
  std::uint64_t Reveal();
  Run RunAt(std::uint64_t offset, std::uint64_t limit);
  bool Fetch(std::uint64_t offset, const Run& run);
  void Advance(std::size_t bytes);

  Stream& stream_;
  InprocTally& tally_;
  const std::size_t slice_bytes_;
  const bool push_;
  const double refuse_windows_;
  Random random_;

  std::uint64_t consumed_ = 0;
  std::uint64_t shown_ = 0;     // the end of the bytes that Peek has ever returned
  std::uint64_t revealed_ = 0;  // for slices: the end of the bytes that may be returned
  std::uint64_t told_ = 0;      // for HasNews: bytes written beyond this offset are news
  std::uint64_t fetched_ = 0;   // lent bytes below this offset are at their ring positions
  std::uint64_t extents_popped_ = 0;
  std::uint64_t window_end_ = 0;
  std::uint64_t end_ = std::numeric_limits<std::uint64_t>::max();
  bool truncated_ = false;  // the sender revoked lent memory that had not been read
};

}  // namespace rondo
