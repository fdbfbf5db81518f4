#include "transport/inproc/stream.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace rondo {

namespace {

// Rings are page-aligned, so that payload at aligned stream offsets is aligned in memory, and two rings never share a
// cache line.
constexpr std::align_val_t kRingAlignment{4096};

}  // namespace

void Stream::FreeAligned::operator()(std::byte* memory) const { operator delete[](memory, kRingAlignment); }

Stream::Stream(std::size_t ring_bytes)
    : capacity(ring_bytes),
      ring(static_cast<std::byte*>(operator new[](ring_bytes, kRingAlignment))),
      extents(kMaxExtents) {}

// ---- StreamWriter ----

StreamWriter::StreamWriter(Stream& stream, const InprocOptions& options, InprocTally& tally, Random random)
    : stream_(stream),
      tally_(tally),
      slice_bytes_(options.slice_bytes),
      late_release_(options.late_release),
      reluctant_(options.reluctant),
      push_(options.push),
      random_(random) {}

std::size_t StreamWriter::Write(std::span<const Bytes> pieces) {
  std::size_t total = 0;
  for (Bytes piece : pieces) total += piece.size();
  if (total == 0) return 0;
  tally_.writes.fetch_add(1, std::memory_order_relaxed);

  const std::size_t limit = SliceOf(total);
  std::size_t room = stream_.capacity - (accepted_ - consumed_);
  if (room < limit) room = Room();
  const std::size_t budget = std::min(limit, room);

  std::size_t done = 0;
  for (Bytes piece : pieces) {
    const Bytes part = piece.first(std::min(piece.size(), budget - done));
    if (part.empty()) continue;
    const std::size_t taken = push_ ? Push(part) : CopyOrSendZeroCopy(part);
    done += taken;
    if (taken < part.size()) break;
  }
  if (done > 0) Publish();
  short_ = false;
  if (done < total) NoteShort(done == limit);
  return done;
}

std::uint64_t StreamWriter::released() const {
  if (!late_release_) released_ = Releasable();
  return released_;
}

void StreamWriter::Poll() {
  if (!late_release_) return;
  const std::uint64_t lag = Releasable() - released_;
  if (lag > 0 && random_.Chance(0.75)) released_ += random_.Between(1, lag);
}

bool StreamWriter::HasNews() {
  bool news = false;
  const std::uint64_t consumed = stream_.consumed.load(std::memory_order_seq_cst);
  if (short_ && (sliced_ || consumed != short_at_consumed_)) {
    sliced_ = false;
    short_at_consumed_ = consumed;
    news = true;
  }
  if (const std::uint64_t releasable = Releasable(); released_ < releasable) {
    if (!late_release_) released_ = releasable;  // otherwise a later Poll of the owner releases the bytes
    news = true;
  }
  return news;
}

void StreamWriter::Revoke() {
  std::lock_guard lock(stream_.memory_mutex);
  stream_.source_revoked = true;
}

std::size_t StreamWriter::Room() {
  consumed_ = stream_.consumed.load(std::memory_order_acquire);
  return stream_.capacity - (accepted_ - consumed_);
}

std::size_t StreamWriter::SliceOf(std::size_t bytes) {
  return slice_bytes_ == 0 ? bytes : std::min<std::size_t>(bytes, random_.Between(1, slice_bytes_));
}

void StreamWriter::CopyIn(Bytes source) {
  const std::size_t first = std::min(source.size(), stream_.UntilWrap(accepted_));
  std::memcpy(stream_.At(accepted_), source.data(), first);
  if (first < source.size()) std::memcpy(stream_.ring.get(), source.data() + first, source.size() - first);
  accepted_ += source.size();
}

bool StreamWriter::SendZeroCopy(Bytes source) {
  if (!PushExtent({accepted_, accepted_ + source.size(), source.data(), /*pushed=*/false})) return false;
  zero_copy_sends_.push_back({accepted_, accepted_ + source.size()});
  accepted_ += source.size();
  tally_.zero_copy_bytes.fetch_add(source.size(), std::memory_order_relaxed);
  return true;
}

std::size_t StreamWriter::CopyOrSendZeroCopy(Bytes source) {
  if (reluctant_) return SendZeroCopy(source) ? source.size() : 0;
  CopyIn(source);
  return source.size();
}

std::size_t StreamWriter::Push(Bytes source) {
  std::lock_guard lock(stream_.memory_mutex);
  auto& windows = stream_.windows;
  std::size_t done = 0;
  while (done < source.size()) {
    while (!windows.empty() && windows.front().end() <= accepted_) windows.pop_front();
    if (windows.empty()) return done + CopyOrSendZeroCopy(source.subspan(done));

    Stream::Window& window = windows.front();
    const std::uint64_t until = accepted_ < window.begin ? window.begin : window.end();
    const Bytes part = source.subspan(done, std::min<std::uint64_t>(source.size() - done, until - accepted_));
    std::byte* const target = accepted_ < window.begin ? nullptr : window.memory.data() + (accepted_ - window.begin);
    if (target == nullptr || !PushExtent({accepted_, accepted_ + part.size(), target, /*pushed=*/true})) {
      const std::size_t taken = CopyOrSendZeroCopy(part);
      done += taken;
      if (taken < part.size()) return done;
      continue;
    }
    std::memcpy(target, part.data(), part.size());
    accepted_ += part.size();
    done += part.size();
    tally_.pushed_bytes.fetch_add(part.size(), std::memory_order_relaxed);
  }
  return done;
}

bool StreamWriter::PushExtent(const Stream::Extent& extent) {
  if (extents_pushed_ - stream_.extents_popped.load(std::memory_order_acquire) == Stream::kMaxExtents) return false;
  stream_.ExtentAt(extents_pushed_) = extent;
  stream_.extents_pushed.store(++extents_pushed_, std::memory_order_release);
  return true;
}

void StreamWriter::Publish() {
  if (!late_release_ && zero_copy_sends_.empty()) released_ = accepted_;
  stream_.written.store(accepted_, std::memory_order_seq_cst);
}

// If `sliced` is true, the mode slice_bytes limited the call, although the ring had room. If `consumed_` is older than
// the peer's true offset, HasNews later returns true once without need, which is harmless.
void StreamWriter::NoteShort(bool sliced) {
  short_ = true;
  sliced_ = sliced;
  short_at_consumed_ = consumed_;
}

std::uint64_t StreamWriter::Releasable() const {
  if (zero_copy_sends_.empty()) return accepted_;
  const std::uint64_t consumed = stream_.consumed.load(std::memory_order_seq_cst);
  while (!zero_copy_sends_.empty() && zero_copy_sends_.front().end <= consumed) zero_copy_sends_.pop_front();
  return zero_copy_sends_.empty() ? accepted_ : std::max(zero_copy_sends_.front().begin, consumed);
}

// ---- StreamReader ----

StreamReader::StreamReader(Stream& stream, const InprocOptions& options, InprocTally& tally, Random random)
    : stream_(stream),
      tally_(tally),
      slice_bytes_(options.slice_bytes),
      push_(options.push),
      refuse_windows_(options.refuse_windows),
      random_(random) {}

Arrived StreamReader::Peek(std::size_t want) {
  const std::uint64_t limit = Reveal();
  // A Peek must return again all bytes that an earlier Peek has returned.
  want = std::max<std::size_t>(want, shown_ - consumed_);
  Arrived arrived;
  std::uint64_t offset = consumed_;
  while (offset < limit) {
    Run run = RunAt(offset, limit);
    if (run.zero_copy) {
      if (arrived.size() >= want) break;
      run.size = std::min(run.size, std::max(want - arrived.size(), kLineBytes));
      if (!Fetch(offset, run)) break;
      run.data = stream_.At(offset);
    }
    const Bytes bytes(run.data, run.size);
    Bytes& last = arrived.second.empty() ? arrived.first : arrived.second;
    if (last.data() + last.size() == bytes.data() && !last.empty()) {
      last = {last.data(), last.size() + bytes.size()};
    } else if (arrived.first.empty()) {
      arrived.first = bytes;
    } else if (arrived.second.empty()) {
      arrived.second = bytes;
    } else {
      break;
    }
    offset += run.size;
  }
  shown_ = std::max(shown_, offset);
  news_from_ = arrived.size() >= want && want > 0 ? limit : offset;
  return arrived;
}

void StreamReader::Consume(std::size_t bytes) {
  RONDO_CHECK(bytes <= shown_ - consumed_, "Consume of {} bytes where Peek showed {}", bytes, shown_ - consumed_);
  Advance(bytes);
}

std::size_t StreamReader::ReadInto(MutableBytes destination) {
  if (destination.empty()) return 0;
  const std::uint64_t limit = std::min(Reveal(), consumed_ + destination.size());
  std::uint64_t offset = consumed_;
  while (offset < limit) {
    const Run run = RunAt(offset, limit);
    std::byte* target = destination.data() + (offset - consumed_);
    if (run.pushed) {
      RONDO_CHECK(run.data == target, "ReadInto of pushed bytes elsewhere than into their window");
    } else if (run.zero_copy) {
      std::lock_guard lock(stream_.memory_mutex);
      if (stream_.source_revoked) {
        truncated_ = true;
        break;
      }
      std::memcpy(target, run.data, run.size);
    } else {
      std::memcpy(target, run.data, run.size);
    }
    offset += run.size;
  }
  const std::size_t done = offset - consumed_;
  Advance(done);
  news_from_ = shown_;
  return done;
}

bool StreamReader::Expect(std::uint64_t stream_offset, MutableBytes destination) {
  if (!push_) return false;
  if (destination.empty()) return true;
  RONDO_CHECK(stream_offset >= window_end_ && stream_offset >= consumed_,
              "Expect at stream offset {}: granted up to {}, consumed {}", stream_offset, window_end_, consumed_);
  if (random_.Chance(refuse_windows_)) {
    tally_.windows_refused.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  std::lock_guard lock(stream_.memory_mutex);
  if (stream_.windows_revoked || stream_.windows.size() == Stream::kMaxWindows) return false;
  stream_.windows.push_back({stream_offset, destination});
  window_end_ = stream_offset + destination.size();
  return true;
}

bool StreamReader::HasNews() {
  const std::uint64_t written = Written(std::memory_order_seq_cst);
  if (written <= news_from_) return false;
  news_from_ = written;
  return true;
}

void StreamReader::Revoke() {
  std::lock_guard lock(stream_.memory_mutex);
  stream_.windows_revoked = true;
  stream_.windows.clear();
}

std::uint64_t StreamReader::Reveal() {
  const std::uint64_t written = Written(std::memory_order_acquire);
  if (slice_bytes_ == 0) return written;
  revealed_ = std::min(written, std::max(revealed_, consumed_) + random_.Between(1, slice_bytes_));
  return revealed_;
}

StreamReader::Run StreamReader::RunAt(std::uint64_t offset, std::uint64_t limit) {
  const std::uint64_t pushed = stream_.extents_pushed.load(std::memory_order_acquire);
  for (std::uint64_t number = extents_popped_; number < pushed; ++number) {
    const Stream::Extent& extent = stream_.ExtentAt(number);
    if (extent.end <= offset) continue;
    if (extent.begin > offset) {
      limit = std::min(limit, extent.begin);
      break;
    }
    limit = std::min(limit, extent.end);
    const std::byte* data = extent.data + (offset - extent.begin);
    if (extent.pushed) return {data, limit - offset, /*pushed=*/true, /*zero_copy=*/false};
    if (offset >= fetched_)
      return {data, std::min<std::size_t>(limit - offset, stream_.UntilWrap(offset)), /*pushed=*/false,
              /*zero_copy=*/true};
    limit = std::min(limit, fetched_);
    break;
  }
  return {stream_.At(offset), std::min<std::size_t>(limit - offset, stream_.UntilWrap(offset)), false, false};
}

bool StreamReader::Fetch(std::uint64_t offset, const Run& run) {
  std::lock_guard lock(stream_.memory_mutex);
  if (stream_.source_revoked) {
    truncated_ = true;
    return false;
  }
  std::memcpy(stream_.At(offset), run.data, run.size);
  fetched_ = offset + run.size;
  return true;
}

void StreamReader::Advance(std::size_t bytes) {
  if (bytes == 0) return;
  consumed_ += bytes;
  shown_ = std::max(shown_, consumed_);
  const std::uint64_t pushed = stream_.extents_pushed.load(std::memory_order_acquire);
  std::uint64_t popped = extents_popped_;
  while (popped < pushed && stream_.ExtentAt(popped).end <= consumed_) ++popped;
  if (popped != extents_popped_) stream_.extents_popped.store(extents_popped_ = popped, std::memory_order_release);
  stream_.consumed.store(consumed_, std::memory_order_seq_cst);
}

}  // namespace rondo
