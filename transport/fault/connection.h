// One proxied connection: two sockets, and a flow for each direction. The flows decide which bytes are forwarded, and
// when.
//
// Thread rule: the proxy's thread.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "transport/fault/flow.h"
#include "transport/fault/proxy.h"
#include "transport/fault/recogniser.h"

namespace rondo::fault {

struct ConnectionSetUp {
  std::string listener;
  std::uint64_t number = 1;  // the number of the connection at its listener, from 1
  std::uint64_t seed = 1;
  std::size_t buffer_bytes = 0;
  asio::ip::tcp::endpoint target;
  std::unique_ptr<Recogniser> recogniser;  // may be null
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `ended` is called once, from inside any call except the constructor. The clock and the counters must outlive the
  // connection.
  Connection(asio::io_context& io, const Clock& clock, ProxyCounters& counters, asio::ip::tcp::socket client,
             ConnectionSetUp set_up, std::function<void()> ended);

  void Start();
  void Add(const std::shared_ptr<Toxicity>& toxicity);
  void Remove(const Toxicity& toxicity);
  void Hold(bool held);
  // Resets the connection at both ends.
  void Reset();

  const std::string& listener() const { return set_up_.listener; }

 private:
  struct Pump {
    Pump(asio::io_context& io, FlowIdentity identity, std::size_t buffer_bytes, Way way, asio::ip::tcp::socket& source,
         asio::ip::tcp::socket& sink)
        : flow(std::move(identity), buffer_bytes), way(way), source(source), sink(sink), timer(io) {}
    Flow flow;
    const Way way;
    asio::ip::tcp::socket& source;
    asio::ip::tcp::socket& sink;
    asio::steady_timer timer;
    bool reading = false;       // waits for bytes from the source
    bool writing = false;       // waits for room at the sink
    bool source_ended = false;  // the source has ended, in an orderly way or not
    bool counted_hold = false;
  };

  FlowIdentity IdentityOf(Way way) const;
  void Advance(Pump& pump);
  void AdvanceBoth();
  // Performs the next step of the flow. False: no further step is possible now.
  bool Step(Pump& pump);
  bool Send(Pump& pump, Bytes bytes);
  void WatchSource(Pump& pump);
  void ReadSource(Pump& pump);
  void LookAt(Way way, Bytes bytes);
  void CloseIfOver();
  void End();

  asio::io_context& io_;
  const Clock& clock_;
  ProxyCounters& counters_;
  ConnectionSetUp set_up_;
  std::function<void()> ended_;
  asio::ip::tcp::socket client_;
  asio::ip::tcp::socket server_;
  Pump to_server_;
  Pump to_client_;
  bool connected_ = false;
  bool closed_ = false;
  std::array<std::byte, 64 * 1024> buffer_;
};

}  // namespace rondo::fault
