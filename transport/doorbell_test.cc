// Tests the race between an owner that goes to sleep and a publisher that rings, in every order of their steps.
#include "transport/doorbell.h"

#include <doctest/doctest.h>

#include <functional>

#include "tests/support/explorer.h"

namespace rondo {
namespace {

// Counts posts, like an eventfd.
struct ExploredSignal {
  explicit ExploredSignal(Explorer& e) : explorer(&e) {}
  void Post() {
    explorer->Step();
    ++count;
  }
  void Take() {
    AwaitReadable();
    CHECK(count == 1);  // each take follows exactly one post
    count = 0;
  }
  void AwaitReadable() {
    explorer->BlockUntil([this] { return count > 0; });
  }
  Explorer* explorer;
  int count = 0;
};

using ExploredBell = BasicDoorbell<Explored<DoorbellState>, ExploredSignal>;

struct Subject {
  explicit Subject(Explorer& explorer)
      : bell(Explored<DoorbellState>(explorer, DoorbellState::kAwake), ExploredSignal(explorer)),
        published(explorer, 0),
        published_too(explorer, 0) {}
  ExploredBell bell;
  Explored<int> published;
  Explored<int> published_too;

  // Does what every owner does: loads all published values, arms the doorbell, loads the values again, and sleeps if
  // nothing is new.
  void Own(int items, int items_too) {
    const auto all_here = [&] { return published.load() == items && published_too.load() == items_too; };
    int seen = 0;
    int seen_too = 0;
    while (seen < items || seen_too < items_too) {
      seen = published.load();
      seen_too = published_too.load();
      if (seen == items && seen_too == items_too) break;
      const bool news = bell.Arm() || published.load() != seen || published_too.load() != seen_too;
      if (!news) bell.signal().AwaitReadable();
      bell.Disarm();
    }
    CHECK(all_here());
  }
  void Publish(Explored<int>& where, int items) {
    for (int i = 1; i <= items; ++i) {
      where.store(i);
      bell.Ring();
    }
  }
};

TEST_CASE("no order of steps of an owner and a publisher of two items loses a wake-up") {
  Explorer explorer(/*max_preemptions=*/4);
  do {
    Subject subject(explorer);
    explorer.Run({[&] { subject.Own(2, 0); }, [&] { subject.Publish(subject.published, 2); }});
    if (explorer.deadlocks() == 0) REQUIRE(subject.bell.signal().count == 0);  // no stale signal
  } while (explorer.NextSchedule());
  CHECK(explorer.deadlocks() == 0);
  CHECK(explorer.schedules() > 500);
}

TEST_CASE("no order of steps of an owner and two publishers loses a wake-up") {
  Explorer explorer(/*max_preemptions=*/3);
  do {
    Subject subject(explorer);
    explorer.Run({[&] { subject.Own(1, 1); }, [&] { subject.Publish(subject.published, 1); },
                  [&] { subject.Publish(subject.published_too, 1); }});
    if (explorer.deadlocks() == 0) REQUIRE(subject.bell.signal().count == 0);
  } while (explorer.NextSchedule());
  CHECK(explorer.deadlocks() == 0);
  CHECK(explorer.schedules() > 500);
}

TEST_CASE("the explorer finds the lost wake-up of an owner that does not look again after arming") {
  Explorer explorer(/*max_preemptions=*/4);
  do {
    Subject subject(explorer);
    const auto careless = [&] {
      while (subject.published.load() == 0) {
        if (!subject.bell.Arm()) subject.bell.signal().AwaitReadable();
        subject.bell.Disarm();
      }
    };
    explorer.Run({careless, [&] { subject.Publish(subject.published, 1); }});
  } while (explorer.NextSchedule());
  CHECK(explorer.deadlocks() > 0);
}

TEST_CASE("the explorer finds the lost wake-up of a publisher that rings before it publishes") {
  Explorer explorer(/*max_preemptions=*/4);
  do {
    Subject subject(explorer);
    explorer.Run({[&] { subject.Own(1, 0); },
                  [&] {
                    subject.bell.Ring();
                    subject.published.store(1);
                  }});
  } while (explorer.NextSchedule());
  CHECK(explorer.deadlocks() > 0);
}

}  // namespace
}  // namespace rondo
