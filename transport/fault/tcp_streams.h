// The names of the TCP transport's streams, for Scope::stream. They are found by reading the handshake
// (transport/tcp/handshake.h).
//
//   lane(0->1)      what rank 0 writes to lane 0 with rank 1, from the first byte of the first frame on
//   lane(0->1)#1    the same for lane 1, which carries messages
//   control(0->1)   what rank 0 sends to rank 1 on their control connection, from the first control frame on
//
// Ranks are numbered as in their communicator. The streams of several communicators or rails have the same names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/ids.h"
#include "transport/fault/recogniser.h"

namespace rondo::fault {

std::string LaneStream(Rank from, Rank to, std::uint32_t index = 0);
std::string ControlStream(Rank from, Rank to);

// Use it for ProxyRoute::recognise. A refused connection, or one with another protocol, has no stream names.
std::unique_ptr<Recogniser> RecogniseTcpTransport();

}  // namespace rondo::fault
