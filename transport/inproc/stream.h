// One direction of a lane: a bounded ring with one producer (StreamWriter) and one consumer (StreamReader). One thread
// at a time uses each of the two.
//
// The byte at stream offset o is at ring position o % capacity. Some ranges of the stream are not in the ring, but
// their ring positions stay reserved. So the limit written - consumed <= capacity holds for all bytes. An Extent
// describes a range that is not in the ring:
//   zero-copy  in the sender's memory (mode `reluctant`). The receiver copies the bytes when it reads: Peek copies them
//              to their ring positions, ReadInto copies them straight to the destination;
//   pushed     already in the receiver's memory, in a buffer that Expect advertised.
//
// What each release/acquire pair publishes:
//   written         stored by the producer: publishes the ring bytes below it, and pushed bytes in advertised buffers
//   extents_pushed  stored by the producer: publishes the extents below it; it is stored before the `written` that
//                   includes their bytes
//   consumed        stored by the consumer: ring bytes below it will not be accessed again and may be overwritten, and
//                   zero-copy memory below it will not be read again
//   extents_popped  stored by the consumer: the extents below it may be overwritten
// `written` and `consumed` are stored sequentially consistently, as transport/doorbell.h requires of a publisher.
//
// The memory of zero-copy sends and of advertised buffers is accessed only with `memory_mutex` held, and after a check
// of the flag that revokes it. So after Revoke has held the mutex, this memory is no longer accessed. Revoke waits at
// most for one copy, which is never larger than the ring.
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

// Counters that all streams of one network share. Relaxed accesses are enough, because tests read the counters only
// when no other thread runs.
struct InprocTally {
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> pushed_bytes{0};
  std::atomic<std::uint64_t> zero_copy_bytes{0};
  std::atomic<std::uint64_t> windows_refused{0};
};

struct Stream {
  // The largest number of ranges outside the ring at a time. At this limit Write accepts fewer bytes.
  static constexpr std::size_t kMaxExtents = 256;
  // The largest number of advertised buffers at a time. At this limit Expect returns false.
  static constexpr std::size_t kMaxWindows = 256;

  struct Extent {
    std::uint64_t begin = 0;  // `begin` and `end` are stream offsets
    std::uint64_t end = 0;
    const std::byte* data = nullptr;
    bool pushed = false;  // false: zero-copy
  };
  struct Window {
    std::uint64_t begin = 0;
    MutableBytes memory;
    std::uint64_t end() const { return begin + memory.size(); }
  };

  explicit Stream(std::size_t ring_bytes);

  std::byte* At(std::uint64_t offset) const { return ring.get() + offset % capacity; }
  // The number of bytes from `offset` on that are contiguous in the ring.
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

  std::vector<Extent> extents;  // stored as a ring, too; guarded by extents_pushed and extents_popped

  std::mutex memory_mutex;
  bool source_revoked = false;   // guarded by memory_mutex: zero-copy extents must not be read
  bool windows_revoked = false;  // guarded by memory_mutex: advertised buffers must not be written
  // Guarded by memory_mutex: advertised buffers in stream order. The producer removes those that it has passed.
  std::deque<Window> windows;
};

// The sending half. Its functions keep the contracts of the functions with the same names in transport/lane.h.
class StreamWriter {
 public:
  StreamWriter(Stream& stream, const InprocOptions& options, InprocTally& tally, Random random);

  std::size_t Write(std::span<const Bytes> pieces);
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t released() const;

  // In the mode `late_release`: releases some more of the accepted bytes.
  void Poll();
  // Whether the peer has made room in the buffer, or has read zero-copy memory, since the owner's latest check. A call
  // that returns true counts as such a check.
  bool HasNews();
  // Whether the peer has not yet read some zero-copy memory.
  bool HasZeroCopySends() const { return Releasable() < accepted_; }
  // After the call the peer no longer reads zero-copy memory.
  void Revoke();

 private:
  std::size_t Room();  // loads the peer's consumed offset
  std::size_t SliceOf(std::size_t bytes);
  void CopyIn(Bytes source);
  bool SendZeroCopy(Bytes source);
  // CopyOrSendZeroCopy and Push take bytes from the front of `source` and return their number. They take fewer if no
  // extent is free.
  std::size_t CopyOrSendZeroCopy(Bytes source);
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
  std::uint64_t consumed_ = 0;  // the peer's consumed offset, as this side has last loaded it
  std::uint64_t extents_pushed_ = 0;

  struct ZeroCopySend {
    std::uint64_t begin;
    std::uint64_t end;
  };
  mutable std::deque<ZeroCopySend> zero_copy_sends_;  // ranges that the peer may not have consumed yet
  mutable std::uint64_t released_ = 0;                // the latest result of released()
  bool short_ = false;                                // the latest Write took only a part of its bytes
  bool sliced_ = false;                  // if short_: the mode slice_bytes limited that Write, although there was room
  std::uint64_t short_at_consumed_ = 0;  // if short_: the peer's consumed offset at the latest Write
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

  // Ends the stream after the bytes that have been written so far. Later bytes of a dying sender are ignored.
  void EndHere() { end_ = stream_.written.load(std::memory_order_acquire); }
  // Whether all written bytes have been consumed, or the sender has revoked the next bytes.
  bool Exhausted() const { return truncated_ || consumed_ == Written(std::memory_order_acquire); }
  // Whether bytes have arrived that the owner has not seen. After a result of true these bytes count as seen.
  bool HasNews();
  // After the call the peer no longer writes into advertised buffers.
  void Revoke();

 private:
  struct Run {  // bytes that are contiguous in memory
    const std::byte* data = nullptr;
    std::size_t size = 0;
    bool pushed = false;
    bool zero_copy = false;
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
  std::uint64_t shown_ = 0;      // the end of all bytes that Peek has returned so far
  std::uint64_t revealed_ = 0;   // in the mode slice_bytes: the end of the bytes that may be returned
  std::uint64_t news_from_ = 0;  // for HasNews: bytes written beyond this offset are news
  std::uint64_t fetched_ = 0;    // zero-copy bytes below this offset are at their ring positions
  std::uint64_t extents_popped_ = 0;
  std::uint64_t window_end_ = 0;
  std::uint64_t end_ = std::numeric_limits<std::uint64_t>::max();
  bool truncated_ = false;  // the sender revoked zero-copy memory that had not been read
};

}  // namespace rondo
