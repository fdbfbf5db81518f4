// The meaning of the events that a device reports besides completions (ibv_get_async_event), as a pure table.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

namespace rondo::ib {

struct EventWords {
  std::string_view name;  // "port down"
  // The most frequent cause, and what to do; "": the event is not a fault.
  std::string_view remedy;
  bool of_port;  // true: the event is about one port; false: about the whole device, or an object made on it
};

EventWords Words(ibv_event_type event);

}  // namespace rondo::ib
