// What `rondo run` and its agent on another host (`rondo run-agent`) say to each other, over the stdin and stdout that
// ssh gives the agent.
//
// The agent begins with the line kAgentMagic; what a login shell printed before it is passed over. Then both sides send
// words:
//
//   word = bytes:u32 kind:u8 text*      `bytes` counts what follows it; at most kMaxWordBytes
//   text = bytes:u32 and so many bytes  numbers are decimal
//
//   agent     hello    version caller own   its rondo, and the addresses from and to which ssh came ("": not by ssh)
//   launcher  job      directory grace_ms words command... (NAME VALUE)...
//                                           `words`: how many the command has; variables of all ranks. The job's
//                                           secrets are among them: that is why this goes by stdin, and not on a
//                                           command line, which everybody there could read
//   agent     ready                         or
//   agent     refused  why                  and there will be no ranks
//   launcher  start    rank fed (NAME VALUE)...
//                                           any number of times; `fed`: 1 where stdin is what `input` brings, 0 where
//                                           there is none; variables of that rank alone
//   launcher  input    rank bytes           for its stdin; no bytes: that is the end
//   agent     taken    rank bytes           how many of these have gone into its pipe, or were dropped
//   launcher  signal   number               to all its ranks
//   agent     output   rank stream bytes    `stream` is 1 or 2; no bytes: it has ended
//   agent     ended    rank pid code signal why
//   agent     pulse                         every few seconds, so that a connection whose other end is gone is found
//                                           out: nobody else would say anything on it
//
// So a start takes two round trips: nothing secret is said to a rondo of another version. When its stdin ends, whatever
// the reason, the agent ends its ranks: SIGTERM, `grace_ms`, SIGKILL.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/fd.h"
#include "base/result.h"
#include "tools/run/child_process.h"

namespace rondo {

inline constexpr std::string_view kAgentMagic = "rondo-agent-1\n";
inline constexpr std::size_t kMaxWordBytes = 64 << 20;
inline constexpr std::size_t kMaxBeforeMagic = 1 << 20;

enum class AgentWordKind : std::uint8_t {
  kHello = 'h',
  kJob = 'j',
  kReady = 'r',
  kRefused = 'x',
  kStart = 's',
  kInput = 'i',
  kTaken = 't',
  kSignal = 'k',
  kOutput = 'o',
  kEnded = 'e',
  kPulse = 'p',
};

struct AgentWord {
  AgentWordKind kind = AgentWordKind::kReady;
  std::vector<std::string> texts;

  // kProtocol: there is no such text, or it is no whole number in that range.
  Result<std::int64_t> Number(std::size_t index, std::int64_t low, std::int64_t high) const;
  Result<std::string> Text(std::size_t index) const;
  // The texts from there on as names and values. kProtocol: one is over.
  Result<Variables> VariablesFrom(std::size_t index) const;
  friend bool operator==(const AgentWord&, const AgentWord&) = default;
};

std::string Encode(const AgentWord& word);
// Takes the next whole word off the front of `unread`; nullopt: it has not arrived yet. kProtocol: no word begins so.
Result<std::optional<AgentWord>> TakeWord(std::string_view& unread);

// One side of the talk. Never blocks. Thread rule: one thread.
class AgentStream {
 public:
  AgentStream(Fd in, Fd out);

  // Queues, and writes what can be written now.
  void Send(const AgentWord& word) { SendRaw(Encode(word)); }
  void SendRaw(std::string_view bytes);
  // Nothing can be said any more: the other side is gone.
  bool deaf() const { return !out_; }
  std::size_t queued() const { return unsent_.size(); }
  // Says no more; what is queued is lost.
  void CloseOut();

  // Takes in what has arrived, a bounded amount of it.
  void Receive();
  // No more will come.
  bool over() const { return !in_; }
  // The next word. kProtocol: see TakeWord; nothing after it can be read.
  Result<std::optional<AgentWord>> Next();
  // Whether kAgentMagic has arrived; it and what came before it are then taken away. kProtocol: so much came that it
  // will not.
  Result<bool> TakeMagic();

  // To poll: for reading, and for writing where something is queued.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Writes what is queued.
  void Flush();

 private:
  Fd in_;
  Fd out_;
  std::string received_;
  std::size_t taken_ = 0;  // of received_
  std::string unsent_;
};

}  // namespace rondo
