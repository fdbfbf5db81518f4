// Makes one connection to a peer that has several addresses. It tries them in order, each a moment after the one
// before, and does the handshake on the first that connects. If that fails it goes on with the others, and it starts
// over with growing pauses until the deadline. If no address takes a connection at all, it gives up sooner. The error
// lists every address tried and why it failed.
//
// Thread rule: the control thread.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/wire.h"
#include "transport/tcp/address.h"
#include "transport/tcp/awake_timer.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/handshake_sides.h"
#include "transport/tcp/socket.h"

namespace rondo::tcp {

struct ConnectPlan {
  std::vector<Attempt> attempts;
  Hello hello;
  std::shared_ptr<const JobToken> token;  // null: this process has none
  std::shared_ptr<const TlsContext> tls;  // null: in the clear
  std::size_t tls_buffer_bytes = kTlsSmallBuffer;
  std::vector<Candidate> sources;  // the local addresses to connect from (SourceFor); empty: any
  std::uint32_t rail = 0;
  int buffer_bytes = 0;
  std::vector<std::string> congestion_control;
  Duration timeout{};            // for the whole connection
  Duration reach_timeout{};      // for some address to take a connection
  Duration handshake_timeout{};  // from connected to the first reply
  std::string peer_name;         // "rank 2 (host b)", for errors
  // Called with the state of every address, for people, whenever that has changed, until `done` is called.
  std::function<void(std::string)> report = nullptr;
};

struct Connected {
  Fd fd;
  Wire wire;
  Attempt via;
};

class Connector : public std::enable_shared_from_this<Connector> {
 public:
  using Done = std::function<void(Result<Connected>)>;

  Connector(asio::io_context& io, ConnectPlan plan);
  // Calls `done` once, after Start has returned, unless Cancel comes first.
  void Start(Done done);
  void Cancel();
  // Whether a hello was sent and is not answered yet: the peer gets it, unless the connection breaks.
  bool said_hello() const { return shaking_ != nullptr; }

 private:
  struct Try {
    Try(asio::io_context& io, std::size_t index) : index(index), socket(io) {}
    const std::size_t index;  // into plan_.attempts
    asio::posix::stream_descriptor socket;
    Wire wire;
    std::optional<ClientHandshake> side;  // once its hello was sent
    bool held = false;
  };
  using TryPtr = std::shared_ptr<Try>;

  void BeginRound();
  void TryNext();
  void OnConnected(const TryPtr& attempt);
  void Shake(const TryPtr& attempt);
  bool Send(const TryPtr& attempt, Bytes bytes);
  void ReadReply(const TryPtr& attempt);
  void OnBroken(const TryPtr& attempt, const Error& error);
  void OnReply(const TryPtr& attempt, const Reply& reply);
  void GiveUp(const TryPtr& attempt, std::string why);
  void DropAllOthers();
  void EndRound();
  void OnDeadline();
  Duration ReachTime() const;
  void OnReachTimeout();
  void Report() const;
  std::string WhatWasTried() const;
  std::string WhyRefusedHere() const;  // "": this system did not
  void Finish(Result<Connected> result);
  void CloseAll();

  asio::io_context& io_;
  const ConnectPlan plan_;
  Done done_;
  AwakeTimer deadline_, reach_timer_, stagger_, reply_timer_, pause_;
  std::size_t next_ = 0;          // the attempt to begin next in this round
  std::vector<TryPtr> running_;   // connecting
  std::vector<TryPtr> waiting_;   // connected while another one shakes hands
  TryPtr shaking_;                // whose hello was sent
  std::vector<std::string> why_;  // by attempt: the last failure
  std::vector<int> tries_;        // by attempt
  std::vector<bool> taken_;       // by attempt: a process took the connection and has not refused the hello
  std::vector<bool> refused_;     // by attempt: its last try was refused, as by a host where no process listens
  int refused_rounds_ = 0;        // consecutive rounds in which all were refused
  std::optional<Error> refusal_;  // a final "no" from a Rondo in this round
  std::vector<std::string> refused_here_;  // by attempt: why this system did not allow its last try; "": it did
  std::string lacks_;                      // the resource that the peer reported to be exhausted; "": none
  Duration next_pause_;
};

}  // namespace rondo::tcp
