#include "collectives/device/registrations.h"

#include <algorithm>
#include <utility>

namespace rondo {

bool DeviceRegistrations::Knows(Bytes memory, bool idle) {
  const std::uint64_t identity = queue_.IdentityOf(memory.data());
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.identity == identity; });
  if (known != kept_.end()) {
    known->last_use = ++uses_;
    return known->registration != nullptr && known->memory.data() <= memory.data() &&
           memory.data() + memory.size() <= known->memory.data() + known->memory.size();
  }
  if (idle) LetGo();
  Result<ExportedMemory> exported = queue_.Export(memory.data());
  if (!exported) {
    why_ = exported.error().message();
    return false;
  }
  // Memory that was freed may still be registered at this address, and that registration cannot be released now. Then
  // the new memory is not registered, because adapters could not distinguish the two allocations.
  const Bytes allocation = exported->memory.bytes;
  const bool is_taken = std::any_of(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.memory.data() < allocation.data() + allocation.size() &&
           allocation.data() < kept.memory.data() + kept.memory.size();
  });
  if (is_taken) {
    why_ = "adapters still have earlier memory at this address registered";
    return false;
  }
  Kept made{.memory = allocation, .identity = exported->identity, .last_use = ++uses_};
  Result<std::unique_ptr<DeviceRegistration>> registered = RegisterDevice(transport_, exported->memory);
  if (registered) {
    made.registration = std::move(*registered);
  } else {
    why_ = registered.error().message();
  }
  kept_.push_back(std::move(made));
  return kept_.back().registration != nullptr;
}

void DeviceRegistrations::LetGo() {
  std::erase_if(kept_, [&](const Kept& kept) { return queue_.IdentityOf(kept.memory.data()) != kept.identity; });
  std::sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.last_use > b.last_use; });
  if (kept_.size() >= kMaxKept) kept_.resize(kMaxKept - 1);
}

}  // namespace rondo
