#include "transport/fault/tcp_streams.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "transport/tcp/handshake.h"

namespace rondo::fault {
namespace {

class TcpRecogniser final : public Recogniser {
 public:
  void Look(Way way, Bytes bytes) override { way == Way::kToServer ? LookAtClient(bytes) : LookAtReplies(bytes); }
  const std::optional<Stream>& stream(Way way) const override {
    return way == Way::kToServer ? to_server_ : to_client_;
  }

 private:
  // Feeds a reader. False: its message is not complete yet, or the bytes are not a handshake.
  bool Feed(tcp::MessageReader& reader, Bytes& bytes, std::uint64_t& offset) {
    while (!reader.complete()) {
      const std::size_t size = std::min(reader.wanted(), bytes.size());
      if (size == 0) return false;
      if (!reader.Feed(bytes.first(size))) {
        given_up_ = true;
        return false;
      }
      offset += size;
      bytes = bytes.subspan(size);
    }
    return true;
  }

  void LookAtClient(Bytes bytes) {
    if (given_up_ || to_server_) return;
    if (!hello_) {
      if (!Feed(hello_reader_, bytes, client_end_)) return;
      const auto hello = hello_reader_.hello();
      given_up_ = !hello;
      if (!hello) return;
      hello_ = *hello;
    }
    // If the client has a token, the server either asks it for a proof, or refuses it.
    if (hello_->nonce && !Feed(proof_reader_, bytes, client_end_)) return;
    to_server_ = Stream{NameOf(hello_->from, hello_->to), client_end_};
  }

  void LookAtReplies(Bytes bytes) {
    while (!given_up_ && !to_client_ && Feed(reply_reader_, bytes, replies_end_)) {
      const auto reply = reply_reader_.reply();
      const bool goes_on =
          reply && (reply->verdict == tcp::Verdict::kHeld || reply->verdict == tcp::Verdict::kAccepted ||
                    reply->verdict == tcp::Verdict::kProve);
      given_up_ = !goes_on || !hello_;
      if (given_up_) return;
      if (reply->verdict == tcp::Verdict::kAccepted)
        to_client_ = Stream{NameOf(hello_->to, hello_->from), replies_end_};
      reply_reader_ = tcp::MessageReader(
          tcp::MessageReader::Kind::kReply);  // another reply follows, unless this reply was an acceptance
    }
  }

  std::string NameOf(Rank from, Rank to) const {
    return hello_->kind == tcp::ConnectionKind::kControl ? ControlStream(from, to)
                                                         : LaneStream(from, to, hello_->index);
  }

  tcp::MessageReader hello_reader_{tcp::MessageReader::Kind::kHello};
  tcp::MessageReader reply_reader_{tcp::MessageReader::Kind::kReply};
  tcp::MessageReader proof_reader_{tcp::MessageReader::Kind::kProof};
  std::uint64_t client_end_ = 0;
  std::uint64_t replies_end_ = 0;
  std::optional<tcp::Hello> hello_;
  bool given_up_ = false;
  std::optional<Stream> to_server_;
  std::optional<Stream> to_client_;
};

}  // namespace

std::string LaneStream(Rank from, Rank to, std::uint32_t index) {
  return fmt::format("lane({}->{}){}", from, to, index == 0 ? "" : fmt::format("#{}", index));
}

std::string ControlStream(Rank from, Rank to) { return fmt::format("control({}->{})", from, to); }

std::unique_ptr<Recogniser> RecogniseTcpTransport() { return std::make_unique<TcpRecogniser>(); }

}  // namespace rondo::fault
