// The meaning of the events that a device reports besides completions (ibv_get_async_event): a pure table.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

namespace rondo::ib {

struct EventWords {
  std::string_view name;  // "port down"
  // Its most frequent cause, and what to do; "": it is no fault.
  std::string_view remedy;
  bool of_port;  // true: of one port; false: of the whole device, or of an object made on it
};

EventWords Words(ibv_event_type event);

}  // namespace rondo::ib
