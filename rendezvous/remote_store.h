// A store behind a connection: encodes calls in the store's protocol and decodes the answers. A derived class moves the
// bytes, over sockets (tcp_store_client.h) or over the simulator's lanes.
//
// Thread rule: the same as for the derived class, because this class has no mutable state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/store.h"
#include "rendezvous/tcp_store_protocol.h"

namespace rondo {

class RemoteStore : public Store {
 public:
  explicit RemoteStore(std::string name) : name_(std::move(name)) {}

  std::string Describe() const override { return name_; }
  Status SetMany(std::span<const KeyValue> entries, TimePoint deadline) override;
  Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys,
                                                          TimePoint deadline) override;
  Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) override;
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint deadline) override;
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired, TimePoint deadline) override;
  Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint deadline) override;

 protected:
  // Encodes a request as a frame with the given id.
  using Encoded = std::function<std::string(std::uint64_t id)>;
  // Describes a call, for the error message if no answer comes.
  struct Asked {
    std::string_view verb;
    std::string_view first_key;
    std::size_t keys = 0;
    // True: at the deadline the client withdraws the request, and the server answers with the missing keys.
    bool abandon = false;
    static Asked For(std::string_view verb, std::span<const std::string> keys, bool abandon = false) {
      return {verb, keys.empty() ? std::string_view() : std::string_view(keys.front()), keys.size(), abandon};
    }
  };
  // Sends the request and gives the payload of its answer.
  virtual Result<std::string> Ask(const Encoded& encoded, TimePoint deadline, const Asked& asked) = 0;

  Result<std::string> PayloadOf(store_protocol::Reply reply) const;
  Error Unanswered(const Asked& asked) const;
  Error Lost(const std::string& why) const;

 private:
  const std::string name_;
};

}  // namespace rondo
