// Makes a store of Rondo usable as a store of torch. init_method="rondo://" returns it.
#pragma once

#include <rondo.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "backend.h"

namespace rondo_torch {

// Thread rule: any thread. Ctrl-C ends every wait for the store. The store closes when its last owner releases it. If
// the store's server runs in this process, the server then stops, too.
class RondoStore : public c10d::Store {
 public:
  using Value = std::vector<uint8_t>;

  // A forked child does not free the store, because the store's connection and its server's threads belong to the
  // parent.
  explicit RondoStore(rondo_store* store)
      : store_(store, [process = getpid()](rondo_store* ended) {
          if (getpid() == process) rondo_store_free(ended);
        }) {}

  void set(const std::string& key, const Value& value) override;
  // Waits for the key.
  Value get(const std::string& key) override;
  // An empty `expected` means a key that does not exist. Returns the value of the key after the call, or `expected` if
  // the key does not exist.
  Value compareSet(const std::string& key, const Value& expected, const Value& desired) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  // Always throws, because Rondo's stores cannot count their keys.
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
#if TORCH_VERSION_MAJOR >= 2
  c10::intrusive_ptr<c10d::Store> clone() override;
#endif

 private:
  // Runs `call`, a call of rondo.h that owns everything it uses, and throws if it fails. If the wait is interrupted,
  // the call continues.
  template <typename Call>
  void Ask(Call call) const;

  const std::shared_ptr<rondo_store> store_;
};

// The result of a rendezvous: the store, this rank and the world size.
struct RendezvousResult {
  c10::intrusive_ptr<RondoStore> store;
  int32_t rank = -1;
  int32_t world_size = 0;
};
// Calls rondo_rendezvous. `url` is one of Rondo's URLs, for example env://?rank=1. Of `settings`, only those that say
// how other ranks can reach this rank are used. Throws an error that names the missing ranks.
RendezvousResult Rendezvous(const std::string& url, std::chrono::milliseconds timeout, const Settings& settings);

}  // namespace rondo_torch
