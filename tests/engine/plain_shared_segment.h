// A shared segment in the memory of one process. It is ready from the start, and no rank ever sleeps on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "transport/shared_segment.h"

namespace rondo {

class PlainSharedSegment final : public SharedSegment {
 public:
  PlainSharedSegment(int ranks, std::size_t part_bytes)
      : part_bytes_(part_bytes), lines_(static_cast<std::size_t>(ranks) * part_bytes / kLineBytes) {}

  SharedSegmentState state() const override { return SharedSegmentState::kReady; }
  const std::string& why() const override { return why_; }
  const Error* failure() const override { return nullptr; }
  std::vector<Rank> Missing() const override { return {}; }
  MutableBytes part(Rank rank) override {
    auto* const all = reinterpret_cast<std::byte*>(lines_.data());
    return {all + static_cast<std::size_t>(rank) * part_bytes_, part_bytes_};
  }
  void WakeWaiters() override {}

  // The functions about other ranks' memory. Each of them fails unless the test has called AnswerQuestions with a
  // function that returns true for it. All ranks are in one process, so every address is valid for all of them.
  enum class Question : std::uint8_t { kLocate, kShow, kFind, kCanRead, kCanBeRead, kRead };
  static bool IsAboutReading(Question question) {
    return question == Question::kCanRead || question == Question::kCanBeRead || question == Question::kRead;
  }
  void AnswerQuestions(std::function<bool(Question)> good) { good_ = std::move(good); }
  void LetGoOfFreed() override {}
  std::uint32_t RegionOf(Bytes) override { return IsGood(Question::kLocate) ? 1 : 0; }
  bool Show(std::uint32_t) override { return IsGood(Question::kShow); }
  const std::byte* Find(Rank, const MemoryPlace& place, std::uint64_t) override {
    return IsGood(Question::kFind) ? reinterpret_cast<const std::byte*>(place.address) : nullptr;
  }
  bool CanRead() const override { return IsGood(Question::kCanRead); }
  bool CanBeRead(Bytes) override { return IsGood(Question::kCanBeRead); }
  Status Read(Rank rank, std::uint64_t address, MutableBytes into) override {
    if (!IsGood(Question::kRead)) return Fail(failure_code_, "rank {}'s memory cannot be read", rank);
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(address), into.size());
    return {};
  }
  // The error code of a Read that fails.
  void FailReadsWith(ErrorCode code) { failure_code_ = code; }

 private:
  bool IsGood(Question question) const { return good_ && good_(question); }

  struct alignas(kLineBytes) Line {
    std::byte bytes[kLineBytes] = {};
  };
  const std::size_t part_bytes_;
  std::vector<Line> lines_;
  std::function<bool(Question)> good_;
  ErrorCode failure_code_ = ErrorCode::kResource;
  const std::string why_;
};

}  // namespace rondo
