// What a device tells of itself, apart from completions (ibv_get_async_event), in words: a pure table.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

namespace rondo::ib {

struct EventWords {
  std::string_view name;  // "port down"
  // What it comes from most often, and what to do; "": nothing is wrong.
  std::string_view remedy;
  bool of_port;  // one port's; else the whole device's, or of one of the things made on it
};

EventWords Words(ibv_event_type event);

}  // namespace rondo::ib
