#include "collectives/device/staging.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

// Windows have a multiple of this many elements, so that they begin on cache lines for every type.
constexpr std::uint64_t kWindowUnit = kLineBytes;
constexpr std::uint64_t kMaxElementBytes = 8;

}  // namespace

Result<std::unique_ptr<StagingMemory>> StagingMemory::Make(Transport& transport, DeviceQueue& queue,
                                                           std::size_t bytes) {
  std::unique_ptr<StagingMemory> made(new StagingMemory);
  RONDO_ASSIGN(made->memory_, transport.Allocate(bytes));
  RONDO_ASSIGN(made->pinned_, queue.Pin(made->memory_->bytes()));
  return made;
}

StagingWindows::StagingWindows(std::uint64_t window_bytes, int world_size)
    : world_size_(static_cast<std::uint64_t>(world_size)),
      slot_bytes_(std::max(RoundUp(window_bytes, kLineBytes), world_size_ * kWindowUnit * kMaxElementBytes)) {}

std::uint64_t StagingWindows::ElementsOf(const OperationRequest& request) const {
  const OperationDescriptor& d = request.descriptor;
  if (d.varying) return 0;
  const std::uint64_t blocks = BlocksOf(d.collective, 2) > 1 ? world_size_ : 1;
  return slot_bytes_ / (blocks * SizeOf(request.type)) / kWindowUnit * kWindowUnit;
}

std::size_t StagingWindows::BytesFor(const OperationRequest& request) const {
  const std::uint64_t ordinary = 2 * StagingMemory::kSlots * slot_bytes_;
  if (!request.descriptor.varying) return ordinary;
  const auto side = [&](std::uint64_t elements) { return RoundUp(elements * SizeOf(request.type), kLineBytes); };
  return std::max(ordinary, side(request.input_elements) + side(request.output_elements));
}

void Staging::Start(const OperationRequest& request, DeviceQueue& queue) {
  RONDO_CHECK(whole_ == nullptr, "an operation is running");
  const OperationDescriptor& d = request.descriptor;
  whole_ = &request;
  queue_ = &queue;
  arrived_ = given_ = input_stays_ = false;
  run_ = read_ = reads_submitted_ = 0;
  const std::uint64_t element_bytes = SizeOf(request.type);
  const auto side = [&](const void* memory, std::uint64_t elements, CopyDirection direction) {
    Side made;
    made.device = static_cast<std::byte*>(const_cast<void*>(memory));
    if (elements > 0) made.rows = d.varying ? 1 : elements / d.count;
    made.pitch = d.varying ? 0 : d.count * element_bytes;
    made.before = copies_[static_cast<std::size_t>(direction)];
    return made;
  };
  in_ = side(request.input, request.input_elements, CopyDirection::kToHost);
  out_ = side(request.output, HasResult() ? 0 : request.output_elements, CopyDirection::kToDevice);
  elements_ = windows_.ElementsOf(request);
  count_ = elements_ == 0 ? 1 : std::max<std::uint64_t>(DivCeil(d.count, elements_), 1);
  slot_bytes_ = d.varying ? RoundUp(request.input_elements * element_bytes, kLineBytes) : windows_.slot_bytes();
  // If all ranks work on the same elements, the output can overwrite the input in the slot.
  one_side_ = !d.varying && BlocksOf(d.collective, 2) == 1;
}

bool Staging::HasResult() const {
  return whole_->descriptor.collective == Collective::kBroadcast && whole_->input == whole_->output && in_.rows > 0;
}

const std::byte* Staging::InputAt(std::uint64_t window) const {
  if (in_.rows == 0) return nullptr;
  return input_stays_ ? in_.device + window * elements_ * SizeOf(whole_->type) : SlotOf(window, CopyDirection::kToHost);
}

Bytes Staging::input_of_window() const {
  if (whole_ == nullptr || !input_stays_) return {};
  const std::uint64_t elements = whole_->descriptor.varying ? whole_->input_elements : ElementsIn(run_);
  return {InputAt(run_), elements * SizeOf(whole_->type)};
}

std::uint64_t Staging::Read(std::byte* host, const std::byte* device, std::size_t bytes) {
  reads_.push_back({.host = host, .device = const_cast<std::byte*>(device), .row_bytes = bytes});
  return reads_submitted_ + reads_.size();
}

// Starts the copies that Read has queued. Returns whether any copy was started or has ended.
Result<bool> Staging::MoveReads() {
  const std::uint64_t before = read_;
  if (reads_submitted_ > read_) {
    RONDO_ASSIGN(const std::uint64_t copied, queue_->Copied(CopyDirection::kToHost));
    read_ = copied - in_.before;
  }
  bool moved = read_ > before;
  for (; !reads_.empty() && reads_submitted_ - read_ < DeviceQueue::kMaxCopies; reads_.pop_front()) {
    ++copies_[static_cast<std::size_t>(CopyDirection::kToHost)];
    ++reads_submitted_;
    RONDO_TRY(queue_->Copy(CopyDirection::kToHost, reads_.front()));
    moved = true;
  }
  return moved;
}

std::uint64_t Staging::ElementsIn(std::uint64_t window) const {
  const std::uint64_t count = whole_->descriptor.count;
  return elements_ == 0 ? count : std::min(elements_, count - window * elements_);
}

std::byte* Staging::SlotOf(std::uint64_t window, CopyDirection direction) const {
  const std::uint64_t side = direction == CopyDirection::kToDevice && !one_side_ ? 1 : 0;
  return whole_->staging->bytes().data() + (2 * (window % StagingMemory::kSlots) + side) * slot_bytes_;
}

Status Staging::Submit(CopyDirection direction, Side& side) {
  const std::uint64_t window = side.submitted++;
  if (side.rows == 0 || (input_stays_ && direction == CopyDirection::kToHost)) return {};
  ++copies_[static_cast<std::size_t>(direction)];
  const std::uint64_t element_bytes = SizeOf(whole_->type);
  const bool inward = direction == CopyDirection::kToHost;
  const std::uint64_t all = inward ? whole_->input_elements : whole_->output_elements;
  const std::uint64_t row = whole_->descriptor.varying ? all * element_bytes : ElementsIn(window) * element_bytes;
  DeviceCopy copy{.host = SlotOf(window, direction),
                  .device = side.device + window * elements_ * element_bytes,
                  .row_bytes = row,
                  .rows = side.rows,
                  .host_pitch = row,
                  .device_pitch = side.pitch};
  if (row == side.pitch) {  // the rows are contiguous in the slot and on the device
    copy.row_bytes = row * side.rows;
    copy.rows = 1;
  }
  return queue_->Copy(direction, copy);
}

Result<std::uint64_t> Staging::Ended(CopyDirection direction, const Side& side) const {
  if (side.rows == 0 || (input_stays_ && direction == CopyDirection::kToHost)) return side.submitted;
  RONDO_ASSIGN(const std::uint64_t copied, queue_->Copied(direction));
  return copied - side.before;
}

Result<bool> Staging::Arrive() {
  if (!arrived_) {
    RONDO_ASSIGN(arrived_, queue_->HasArrived(whole_->descriptor.sequence));
  }
  return arrived_;
}

Result<Progress> Staging::Poll() {
  RONDO_ASSIGN(bool moved, MoveReads());
  RONDO_ASSIGN(const std::uint64_t out, Ended(CopyDirection::kToDevice, out_));
  while (in_.submitted < std::min(count_, out + StagingMemory::kSlots)) {
    RONDO_TRY(Submit(CopyDirection::kToHost, in_));
    moved = true;
  }
  while (out_.submitted < run_) {
    RONDO_TRY(Submit(CopyDirection::kToDevice, out_));
    moved = true;
  }
  if (out == count_) {
    whole_ = nullptr;
    return Progress::kComplete;
  }
  return moved ? Progress::kMoved : Progress::kNothing;
}

Result<const OperationRequest*> Staging::Next() {
  if (given_) return &window_;
  if (!arrived_ || run_ == count_) return nullptr;
  RONDO_ASSIGN(const std::uint64_t in, Ended(CopyDirection::kToHost, in_));
  if (in <= run_) return nullptr;
  window_ = *whole_;
  given_ = true;
  window_.staging = nullptr;
  window_.input = InputAt(run_);
  const bool has_output = whole_->output_elements > 0;
  window_.output = has_output ? SlotOf(run_, CopyDirection::kToDevice) : nullptr;
  if (input_stays_) {
    window_.in_place = HasResult();
    if (window_.in_place) window_.output = const_cast<void*>(window_.input);
  } else if (!whole_->wide() && whole_->descriptor.collective != Collective::kBarrier) {
    // Elements that are sent in a wider type do not reach this line. They are in separate memory, and the request
    // already says whether they are in place there.
    window_.in_place = one_side_ && has_output && (in_.rows > 0 || whole_->in_place);
  }
  if (whole_->descriptor.varying) return &window_;
  const std::uint64_t count = whole_->descriptor.count;
  const std::uint64_t elements = ElementsIn(run_);
  const auto part = [&](std::uint64_t whole) { return count == 0 ? 0 : whole / count * elements; };
  window_.descriptor.window = elements;
  window_.input_elements = part(whole_->input_elements);
  window_.output_elements = part(whole_->output_elements);
  window_.own_at = part(whole_->own_at);
  return &window_;
}

void Staging::HasRun() {
  RONDO_CHECK(given_, "no window was given");
  given_ = false;
  ++run_;
}

void Staging::Drain() noexcept {
  if (queue_ != nullptr) queue_->Drain();
  whole_ = nullptr;
  given_ = false;
  reads_.clear();
}

}  // namespace rondo
