// Tests the state machine of all stores: its limits, and Waits whose keys are deleted.
#include "rendezvous/store_state.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace rondo {
namespace store_state_test {

using Keys = std::vector<std::string>;

void Set(StoreState& state, const std::string& key, const std::string& value) {
  const KeyValue entry{key, value};
  REQUIRE(state.Set(std::span(&entry, 1)));
}

TEST_CASE("A wait needs all its keys at one time: one deleted meanwhile is awaited again") {
  StoreState state({});
  const auto wait = state.Wait(Keys{"a", "b"}, "");
  REQUIRE(!wait.finished);
  Set(state, "a", "1");
  state.Delete(Keys{"a"});
  Set(state, "b", "2");
  CHECK(state.TakeFinished().empty());
  Set(state, "a", "3");
  const auto finished = state.TakeFinished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].id == wait.id);
  CHECK(*(*finished[0].values)[0] == "3");
  CHECK(*(*finished[0].values)[1] == "2");
  CHECK(state.pending_waits() == 0);
}

TEST_CASE("A batch appears as one: who awaits half of it and the cancel key in it is not cancelled") {
  StoreState state({});
  const auto wait = state.Wait(Keys{"a", "b"}, "cancel");
  const std::vector<KeyValue> batch{{"cancel", "no"}, {"b", "2"}, {"a", "1"}};
  REQUIRE(state.Set(batch));
  const auto finished = state.TakeFinished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].id == wait.id);
  CHECK(finished[0].values);
}

TEST_CASE("Keys may double as the cancel key") {
  StoreState state({});
  const auto both = state.Wait(Keys{"a"}, "a");
  const auto other = state.Wait(Keys{"b", "a"}, "a");
  Set(state, "a", "why");
  const auto finished = state.TakeFinished();
  REQUIRE(finished.size() == 2);
  CHECK(finished[0].id == both.id);
  CHECK(finished[0].values);
  CHECK(finished[1].id == other.id);
  CHECK(finished[1].values.error().code() == ErrorCode::kAborted);
}

TEST_CASE("An abandoned wait reports what it still missed, and nothing remains of it") {
  StoreState state({});
  const auto wait = state.Wait(Keys{"a", "b", "c"}, "cancel");
  Set(state, "b", "");
  CHECK(state.Abandon(wait.id) == Keys{"a", "c"});
  CHECK(state.Abandon(wait.id).empty());
  Set(state, "a", "");
  Set(state, "c", "");
  Set(state, "cancel", "");
  CHECK(state.TakeFinished().empty());
}

TEST_CASE("What does not fit is refused whole, and room comes back with deletion") {
  StoreState state({.max_bytes = 1000, .max_wait_bytes = 1000});
  Set(state, "a", std::string(300, 'x'));
  const std::vector<KeyValue> batch{{"b", std::string(100, 'x')}, {"c", std::string(400, 'x')}};
  const Status refused = state.Set(batch);
  REQUIRE(!refused);
  CHECK(refused.error().code() == ErrorCode::kResource);
  CHECK(refused.error().message().find("1000 bytes") != std::string::npos);
  CHECK(state.Get(Keys{"b"})[0] == nullptr);
  CHECK(state.CompareSet("c", std::nullopt, std::string(900, 'x')).error().code() == ErrorCode::kResource);
  Set(state, "a", std::string(700, 'x'));  // if a value is replaced, only the difference of the sizes counts
  CHECK(state.Delete(Keys{"a"}) == 1);
  CHECK(state.bytes() == 0);
  REQUIRE(state.Set(batch));
}

TEST_CASE("A key that stands in a batch twice makes the room of its old value only once") {
  StoreState state({.max_bytes = 2048, .max_wait_bytes = 0});
  Set(state, "a", std::string(1000, 'x'));
  const std::vector<KeyValue> batch{{"a", ""}, {"a", ""}, {"a", "1"}, {"b", std::string(1900, 'y')}};
  REQUIRE(!state.Set(batch));  // "b" alone would fit; together with the new "a" it does not
  CHECK(*state.Get(Keys{"a"})[0] == std::string(1000, 'x'));
  CHECK(state.bytes() <= 2048);
  const std::vector<KeyValue> smaller{{"a", std::string(1000, 'z')}, {"a", "1"}, {"b", std::string(1600, 'y')}};
  REQUIRE(state.Set(smaller));  // of the two values for "a", only the later one remains
  CHECK(*state.Get(Keys{"a"})[0] == "1");
  CHECK(state.bytes() <= 2048);
}

TEST_CASE("Waits beyond their limit are refused, and room comes back as they end") {
  StoreState state({.max_bytes = 1000, .max_wait_bytes = 600});
  const auto first = state.Wait(Keys{std::string(100, 'k')}, "");
  REQUIRE(!first.finished);
  const auto second = state.Wait(Keys{std::string(100, 'l')}, "");
  REQUIRE(second.finished);
  CHECK(second.finished->error().code() == ErrorCode::kResource);
  state.Abandon(first.id);
  CHECK(!state.Wait(Keys{std::string(100, 'l')}, "").finished);
}

TEST_CASE("A thousand keys that come in the worst order still end a wait") {
  StoreState state({});
  Keys keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(std::to_string(i));
  const auto wait = state.Wait(keys, "");
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    CHECK(state.TakeFinished().empty());
    Set(state, *key, *key);
  }
  const auto finished = state.TakeFinished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].id == wait.id);
}

}  // namespace store_state_test
}  // namespace rondo
