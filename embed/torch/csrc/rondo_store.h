// Rondo's store as one of torch's: what init_method="rondo://" gives.
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

// Any thread uses it. Ctrl-C ends every wait for it. It ends, with its server where this process has it, with the last
// of its owners.
class RondoStore : public c10d::Store {
 public:
  using Value = std::vector<uint8_t>;

  // In a forked child it is left alone: its connection and its server's threads are the parent's.
  explicit RondoStore(rondo_store* store)
      : store_(store, [process = getpid()](rondo_store* ended) {
          if (getpid() == process) rondo_store_free(ended);
        }) {}

  void set(const std::string& key, const Value& value) override;
  // Waits for the key.
  Value get(const std::string& key) override;
  // An empty `expected` stands for a key that is not there. Gives what is there afterwards, or `expected` where nothing
  // is.
  Value compareSet(const std::string& key, const Value& expected, const Value& desired) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  // Throws: Rondo's stores do not count.
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
#if TORCH_VERSION_MAJOR >= 2
  c10::intrusive_ptr<c10d::Store> clone() override;
#endif

 private:
  // Throws what `call`, a function of rondo.h's with all that it uses, fails of. Interrupted, the call goes on.
  template <typename Call>
  void Ask(Call call) const;

  const std::shared_ptr<rondo_store> store_;
};

// Where the ranks of a job have met.
struct Met {
  c10::intrusive_ptr<RondoStore> store;
  int32_t rank = -1;
  int32_t world_size = 0;
};
// As rondo_meet; `url` is one of Rondo's: env://?rank=1. Of `settings` what says how this rank can be reached. Throws,
// naming who is missing.
Met Meet(const std::string& url, std::chrono::milliseconds timeout, const Settings& settings);

}  // namespace rondo_torch
