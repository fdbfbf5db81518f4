// Tests the guarantees of rendezvous/store.h with every kind of store.
#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/rendezvous/stores.h"
#include "tests/support/threads.h"

namespace rondo {
namespace store_conformance_test {

using Keys = std::vector<std::string>;
using Entries = std::vector<KeyValue>;

std::optional<std::string> Get(Store& store, const std::string& key) {
  auto value = store.Get(key, Soon());
  REQUIRE_MESSAGE(value.has_value(), value.error().ToString());
  return *value;
}

void Set(Store& store, const std::string& key, const std::string& value) {
  const Status set = store.Set(key, value, Soon());
  REQUIRE_MESSAGE(set.has_value(), set.error().ToString());
}

TEST_CASE("What one sets, another gets") {
  ForEachStore([](StoreWorld& world) {
    const auto one = world.Open();
    const auto other = world.Open();
    CHECK(Get(*other, "key") == std::nullopt);
    Set(*one, "key", "value");
    CHECK(Get(*other, "key") == "value");
    Set(*other, "key", "again");
    CHECK(Get(*one, "key") == "again");
  });
}

TEST_CASE("Values may be empty, and may hold any bytes") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    std::string bytes;
    for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
    Set(*store, "empty", "");
    Set(*store, "bytes", bytes);
    CHECK(Get(*store, "empty") == "");
    CHECK(Get(*store, "bytes") == bytes);
  });
}

TEST_CASE("A batch answers in the order of its keys, doubles and absent ones included") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    REQUIRE(store->SetMany(Entries{{"a", "1"}, {"b", "2"}, {"a", "3"}}, Soon()));
    const auto values = store->GetMany(Keys{"b", "none", "a", "b"}, Soon());
    REQUIRE(values);
    REQUIRE(values->size() == 4);
    CHECK((*values)[0] == "2");
    CHECK((*values)[1] == std::nullopt);
    CHECK((*values)[2] == "3");
    CHECK((*values)[3] == "2");
  });
}

TEST_CASE("Empty batches succeed") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    CHECK(store->SetMany({}, Soon()));
    CHECK(store->GetMany({}, Soon())->empty());
    CHECK(store->Wait({}, {.deadline = Soon(), .cancel_key = {}})->empty());
    CHECK(*store->DeleteMany({}, Soon()) == 0);
  });
}

TEST_CASE("Keys and values up to their limits pass, one byte more is an argument error that names the key") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    const std::string prefix_room(16, 'k');
    const std::string long_key(kMaxKeyBytes - prefix_room.size(), 'k');
    const std::string large(kMaxValueBytes, 'v');
    Set(*store, long_key, large);
    CHECK(Get(*store, long_key) == large);

    const auto key_error = store->Set(std::string(kMaxKeyBytes + 1, 'K'), "", Soon());
    REQUIRE(!key_error);
    CHECK(key_error.error().code() == ErrorCode::kInvalidArgument);
    CHECK(key_error.error().message().find("KKKK") != std::string::npos);
    const auto value_error = store->Set("the_key", large + "v", Soon());
    REQUIRE(!value_error);
    CHECK(value_error.error().code() == ErrorCode::kInvalidArgument);
    CHECK(value_error.error().message().find("'the_key'") != std::string::npos);
    CHECK(store->Get("", Soon()).error().code() == ErrorCode::kInvalidArgument);
    CHECK(store->Add("", 1, Soon()).error().code() == ErrorCode::kInvalidArgument);
    CHECK(store->CompareSet("", std::nullopt, "", Soon()).error().code() == ErrorCode::kInvalidArgument);
    const auto expected_error = store->CompareSet("the_key", large + "v", "", Soon());
    REQUIRE(!expected_error);
    CHECK(expected_error.error().code() == ErrorCode::kInvalidArgument);
    CHECK(expected_error.error().message().find("'the_key'") != std::string::npos);
    CHECK(store->DeleteMany(Keys{"a", ""}, Soon()).error().code() == ErrorCode::kInvalidArgument);
    CHECK(store->GetMany(Keys(kMaxBatch + 1, "k"), Soon()).error().code() == ErrorCode::kInvalidArgument);
    CHECK(Get(*store, long_key) == large);  // the refused calls changed nothing
  });
}

TEST_CASE("Thousands of keys pass in one call") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    constexpr std::size_t kKeys = 5000;
    Entries entries;
    Keys keys;
    for (std::size_t i = 0; i < kKeys; ++i) {
      keys.push_back(std::to_string(i));
      entries.push_back({keys.back(), keys.back()});
    }
    REQUIRE(store->SetMany(entries, Soon()));
    const auto values = store->Wait(keys, {.deadline = Soon(), .cancel_key = "cancel"});
    REQUIRE(values);
    CHECK(*values == keys);
    CHECK(*store->DeleteMany(keys, Soon()) == kKeys);
  });
}

TEST_CASE("The largest batch passes, also with a cancel key") {
  MemoryWorld world;
  const auto store = world.Open();
  Set(*store, "k", "v");
  CHECK(store->GetMany(Keys(kMaxBatch, "k"), Soon())->size() == kMaxBatch);
  CHECK(store->Wait(Keys(kMaxBatch, "k"), {.deadline = Soon(), .cancel_key = "cancel"})->size() == kMaxBatch);
}

TEST_CASE("Add counts from 0, down as well as up, and refuses what is no number") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    CHECK(*store->Add("counter", 5, Soon()) == 5);
    CHECK(*store->Add("counter", -7, Soon()) == -2);
    CHECK(*store->Add("counter", 0, Soon()) == -2);
    CHECK(Get(*store, "counter") == "-2");
    Set(*store, "text", "12 apples");
    const auto refused = store->Add("text", 1, Soon());
    REQUIRE(!refused);
    CHECK(refused.error().code() == ErrorCode::kInvalidArgument);
    CHECK(refused.error().message().find("text'") != std::string::npos);
    CHECK(refused.error().message().find("12 apples") != std::string::npos);
    Set(*store, "huge", "9223372036854775807");
    CHECK(store->Add("huge", 1, Soon()).error().code() == ErrorCode::kInvalidArgument);
    CHECK(Get(*store, "huge") == "9223372036854775807");
  });
}

TEST_CASE("CompareSet writes only over what was expected, and returns the current value") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    const auto compare_set = [&](std::optional<std::string_view> expected, std::string_view desired) {
      return *store->CompareSet("key", expected, desired, Soon());
    };
    CHECK(!compare_set("something", "x").swapped);
    CHECK(compare_set("something", "x").current == "");
    CHECK(compare_set(std::nullopt, "first").swapped);
    CHECK(!compare_set(std::nullopt, "second").swapped);
    CHECK(compare_set(std::nullopt, "second").current == "first");
    CHECK(!compare_set("firs", "second").swapped);
    CHECK(compare_set("first", "second").current == "second");
    CHECK(Get(*store, "key") == "second");
    Set(*store, "empty", "");
    CHECK(!store->CompareSet("empty", std::nullopt, "x", Soon())->swapped);  // an empty value is not an absent key
    CHECK(store->CompareSet("empty", "", "x", Soon())->swapped);
  });
}

TEST_CASE("Deleting says how many existed, and a deleted key is absent") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    REQUIRE(store->SetMany(Entries{{"a", "1"}, {"b", "2"}, {"c", "3"}}, Soon()));
    CHECK(*store->DeleteMany(Keys{"a", "none", "c", "a"}, Soon()) == 2);
    CHECK(Get(*store, "a") == std::nullopt);
    CHECK(Get(*store, "b") == "2");
    CHECK(*store->Add("a", 1, Soon()) == 1);
  });
}

TEST_CASE("Wait returns at once what is there") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    REQUIRE(store->SetMany(Entries{{"a", "1"}, {"b", "2"}}, Soon()));
    const auto values = store->Wait(Keys{"b", "a", "b"}, {.deadline = Soon(), .cancel_key = {}});
    REQUIRE(values);
    CHECK(*values == Keys{"2", "1", "2"});
  });
}

TEST_CASE("Wait ends when the last key appears, set by any client, in any order, by any call") {
  ForEachStore([](StoreWorld& world) {
    const auto waiting = world.Open();
    const auto setting = world.Open();
    std::thread waiter([&] {
      const auto values = waiting->Wait(Keys{"a", "b", "c"}, {.deadline = Soon(), .cancel_key = "cancel"});
      REQUIRE(values);
      CHECK(*values == Keys{"1", "2", "3"});
      Set(*waiting, "done", "");
    });
    CHECK(setting->CompareSet("c", std::nullopt, "3", Soon())->swapped);
    Set(*setting, "b", "2");
    CHECK(Get(*setting, "done") == std::nullopt);
    CHECK(*setting->Add("a", 1, Soon()) == 1);
    CHECK(setting->WaitFor("done", Soon()));
    waiter.join();
  });
}

TEST_CASE("A wait that reaches its deadline names the store and the missing keys, and soon") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    Set(*store, "there", "");
    const TimePoint before = SteadyClock().Now();
    const auto values = store->Wait(Keys{"there", "lost", "gone"}, {.deadline = InMs(50), .cancel_key = {}});
    const Duration took = SteadyClock().Now() - before;
    REQUIRE(!values);
    CHECK(values.error().code() == ErrorCode::kStoreTimeout);
    CHECK(values.error().message().find("2 of 3 keys") != std::string::npos);
    CHECK(values.error().message().find("lost'") != std::string::npos);
    CHECK(values.error().message().find("gone'") != std::string::npos);
    CHECK(values.error().message().find("there'") == std::string::npos);
    CHECK(values.error().message().find(store->Describe()) != std::string::npos);
    CHECK(took >= std::chrono::milliseconds(50));
    CHECK(took < std::chrono::seconds(5));
  });
}

TEST_CASE("A deadline in the past still gives what is there, or what is missing") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    const auto values = store->Wait(Keys{"key"}, {.deadline = TimePoint{}, .cancel_key = {}});
    REQUIRE(!values);
    CHECK(values.error().code() == ErrorCode::kStoreTimeout);
    Set(*store, "key", "value");  // the store still works
    CHECK(Get(*store, "key") == "value");
  });
}

TEST_CASE("The cancel key ends a wait with its value as the message") {
  ForEachStore([](StoreWorld& world) {
    const auto waiting = world.Open();
    const auto other = world.Open();
    std::thread waiter([&] {
      const auto values = waiting->Wait(Keys{"never"}, {.deadline = Soon(), .cancel_key = "cancel"});
      REQUIRE(!values);
      CHECK(values.error().code() == ErrorCode::kAborted);
      CHECK(values.error().message() == "rank 3 is not coming");
    });
    Set(*other, "cancel", "rank 3 is not coming");
    waiter.join();
    // The cancel key exists already. So a wait for a missing key is cancelled at once, but a wait for existing keys
    // succeeds.
    CHECK(waiting->Wait(Keys{"never"}, {.deadline = Soon(), .cancel_key = "cancel"}).error().code() ==
          ErrorCode::kAborted);
    Set(*other, "key", "value");
    CHECK(waiting->Wait(Keys{"key"}, {.deadline = Soon(), .cancel_key = "cancel"}));
  });
}

TEST_CASE("A wait of one thread holds up no other thread of the same handle") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i) {
      waiters.emplace_back([&, i] { CHECK(store->WaitFor("go" + std::to_string(i), Soon())); });
    }
    for (int i = 3; i >= 0; --i) {
      CHECK(*store->Add("counter", 1, Soon()) == 4 - i);
      Set(*store, "go" + std::to_string(i), "");
      waiters[static_cast<std::size_t>(i)].join();  // the other waits are still pending
    }
  });
}

TEST_CASE("Counters and compare-and-sets of many threads and handles lose nothing") {
  ForEachStore([](StoreWorld& world) {
    constexpr int kThreads = 6;
    constexpr int kRounds = 40;
    const auto shared = world.Open();
    std::atomic<int> won{0};
    OnThreads(kThreads, [&](int thread) {
      const auto own = thread % 2 == 0 ? shared : world.Open();
      for (int round = 0; round < kRounds; ++round) {
        REQUIRE(own->Add("counter", 1, Soon()));
        const auto first = own->CompareSet("round/" + std::to_string(round), std::nullopt, "mine", Soon());
        REQUIRE(first);
        if (first->swapped) ++won;
      }
    });
    CHECK(Get(*shared, "counter") == std::to_string(kThreads * kRounds));
    CHECK(won == kRounds);
  });
}

}  // namespace store_conformance_test
}  // namespace rondo
