// What a callback may do to the queue that is calling it, one thing at a time, on both queues.

#include "unit/queue/timer_queue_fixture.hpp"

#include <memory>
#include <optional>
#include <stdexcept>

namespace verge {
namespace {

// Five timers, of one tick or of several, due in the order of their names.
template <class Queue>
class TimerQueueCallback : public testing::Test {
protected:
    // `step` 0: one batch.  1: neighbours.  100: other slots, and other levels to come from.
    void arm_all(tick step) {
        queue_.emplace(0);
        for (auto& t : timers_)
            queue_->arm_at(t, 100 + step * static_cast<tick>(t.name));
    }

    static constexpr tick all_due = 1000;
    static constexpr std::array<tick, 3> steps = {0, 1, 100};

    std::deque<typename Queue::timer_type> timers_ = make_timers<Queue>(5);
    typename Queue::timer_type extra_{9};
    std::optional<Queue> queue_;
};

TYPED_TEST_SUITE(TimerQueueCallback, both_queues, queue_names);

TYPED_TEST(TimerQueueCallback, ArmsForLater) {
    for (const tick step : this->steps) {
        this->arm_all(step);
        const auto then = [&](auto& t) {
            if (t.name == 1) this->queue_->arm_after(this->extra_, 1);
            EXPECT_EQ(this->queue_->check(), nullptr);
        };
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), (names{0, 1, 2, 3, 4}));
        EXPECT_EQ(this->extra_.deadline(), this->all_due + 1) << "counted from the time told";
        EXPECT_EQ(this->queue_->next_expiry(), this->all_due + 1);
        EXPECT_EQ(fired_by(*this->queue_, this->all_due + 1), names{9});
    }
}

TYPED_TEST(TimerQueueCallback, ArmsForNowOrBefore) {
    for (const tick step : this->steps) {
        for (const tick deadline : {tick{0}, tick{100}, tick{101}, tick{999}, this->all_due}) {
            this->arm_all(step);
            const auto then = [&](auto& t) {
                if (t.name != 1) return;
                this->queue_->arm_at(this->extra_, deadline);
                EXPECT_EQ(this->extra_.deadline(), this->all_due);
            };
            EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then),
                      (names{0, 1, 2, 3, 4}));
            EXPECT_EQ(this->queue_->next_expiry(), this->all_due);
            EXPECT_EQ(fired_by(*this->queue_, this->all_due), names{9});
        }
    }
}

TYPED_TEST(TimerQueueCallback, RearmsItself) {
    for (const tick step : this->steps) {
        this->arm_all(step);
        const auto again = [&](auto& t) { this->queue_->arm_after(t, 0); };
        for (int round = 0; round < 3; ++round) {
            EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, again),
                      (names{0, 1, 2, 3, 4}));
        }
        EXPECT_EQ(this->queue_->size(), 5U);
    }
}

// The callback of one postpones, or brings forward, another that is due in the same advance.
TYPED_TEST(TimerQueueCallback, RearmsATimerOfItsBatch) {
    for (const tick step : this->steps) {
        for (int victim = 1; victim < 5; ++victim) {
            for (const tick deadline : {tick{0}, this->all_due, this->all_due + 70}) {
                this->arm_all(step);
                auto& other = this->timers_[static_cast<std::size_t>(victim)];
                const auto then = [&](auto& t) {
                    if (t.name == 0) this->queue_->arm_at(other, deadline);
                    EXPECT_EQ(this->queue_->check(), nullptr);
                };
                names rest;
                for (int name = 0; name < 5; ++name) {
                    if (name != victim) rest.push_back(name);
                }
                EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), rest);
                EXPECT_EQ(fired_by(*this->queue_, this->all_due + 70), names{victim});
            }
        }
    }
}

TYPED_TEST(TimerQueueCallback, CancelsItself) {
    for (const tick step : this->steps) {
        this->arm_all(step);
        const auto then = [&](auto& t) {
            EXPECT_FALSE(this->queue_->cancel(t)) << "it has fired";
            this->queue_->arm_after(t, 0);
            EXPECT_TRUE(this->queue_->cancel(t)) << "armed anew, it has not";
        };
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), (names{0, 1, 2, 3, 4}));
        EXPECT_TRUE(this->queue_->empty());
    }
}

// Head, middle and last of what is left.
TYPED_TEST(TimerQueueCallback, CancelsATimerOfItsBatch) {
    for (const tick step : this->steps) {
        for (int canceller = 0; canceller < 5; ++canceller) {
            for (int victim = 0; victim < 5; ++victim) {
                this->arm_all(step);
                names expected;
                for (int name = 0; name < 5; ++name) {
                    if (name != victim || victim <= canceller) expected.push_back(name);
                }
                const auto then = [&](auto& t) {
                    if (t.name != canceller) return;
                    auto& other = this->timers_[static_cast<std::size_t>(victim)];
                    EXPECT_EQ(this->queue_->cancel(other), victim > canceller);
                    EXPECT_EQ(this->queue_->check(), nullptr);
                };
                EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), expected);
                EXPECT_TRUE(this->queue_->empty());
            }
        }
    }
}

TYPED_TEST(TimerQueueCallback, DestroysTimersAndItself) {
    using timer = typename TypeParam::timer_type;
    for (const tick step : this->steps) {
        TypeParam queue(0);
        std::vector<std::unique_ptr<timer>> timers;
        for (int name = 0; name < 6; ++name) {
            timers.push_back(std::make_unique<timer>(name));
            queue.arm_at(*timers.back(), 100 + step * static_cast<tick>(name));
        }
        const auto then = [&](timer& t) {
            const int name = t.name;
            if (name == 0) timers[1].reset();
            if (name == 2) timers[5].reset(), timers[2].reset();
            if (name == 3) timers[3].reset();
            EXPECT_EQ(queue.check(), nullptr);
        };
        EXPECT_EQ(fired_by(queue, this->all_due, no_budget, then), (names{0, 2, 3, 4}));
        EXPECT_TRUE(queue.empty());
    }
}

TYPED_TEST(TimerQueueCallback, ClearsTheQueue) {
    for (const tick step : this->steps) {
        this->arm_all(step);
        this->queue_->arm_at(this->extra_, this->all_due + 1);
        const auto then = [&](auto& t) {
            if (t.name != 1) return;
            this->queue_->clear();
            EXPECT_TRUE(this->queue_->empty());
            EXPECT_EQ(this->queue_->next_expiry(), std::nullopt);
            EXPECT_EQ(this->queue_->check(), nullptr);
            this->queue_->arm_at(this->timers_[4], 0);
        };
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), (names{0, 1}));
        EXPECT_FALSE(this->timers_[2].armed());
        EXPECT_FALSE(this->extra_.armed());
        EXPECT_EQ(fired_by(*this->queue_, this->all_due), names{4});
    }
}

TYPED_TEST(TimerQueueCallback, DestroysTheQueue) {
    using timer = typename TypeParam::timer_type;
    for (const tick step : this->steps) {
        for (int destroyer = 0; destroyer < 5; ++destroyer) {
            this->arm_all(step);
            this->queue_->arm_at(this->extra_, never_tick);
            TypeParam next(0);
            const std::size_t count = this->queue_->advance(this->all_due, [&](timer& t) {
                if (t.name != destroyer) return;
                this->queue_.reset();
                for (const auto& survivor : this->timers_)
                    EXPECT_FALSE(survivor.armed());
                next.arm_at(t, 7);  // and goes on elsewhere
            });
            EXPECT_EQ(count, static_cast<std::size_t>(destroyer) + 1);
            EXPECT_FALSE(this->extra_.armed());
            EXPECT_EQ(fired_by(next, 7), names{destroyer});
        }
    }
}

TYPED_TEST(TimerQueueCallback, DestroysTheQueueAndThrows) {
    using timer = typename TypeParam::timer_type;
    for (const tick step : this->steps) {
        this->arm_all(step);
        const auto then = [&](timer& t) {
            if (t.name < 2) return;
            this->queue_.reset();
            throw std::runtime_error("thrown by a callback");
        };
        EXPECT_THROW(this->queue_->advance(this->all_due, then), std::runtime_error);
        for (const auto& survivor : this->timers_)
            EXPECT_FALSE(survivor.armed());
    }
}

TYPED_TEST(TimerQueueCallback, Throws) {
    using timer = typename TypeParam::timer_type;
    for (const tick step : this->steps) {
        for (int thrower = 0; thrower < 5; ++thrower) {
            this->arm_all(step);
            names fired;
            const auto then = [&](timer& t) {
                fired.push_back(t.name);
                if (t.name == 0) this->queue_->arm_at(this->extra_, 0);
                if (t.name == thrower) throw std::runtime_error("thrown by a callback");
            };
            EXPECT_THROW(this->queue_->advance(this->all_due, then), std::runtime_error);
            EXPECT_EQ(this->queue_->check(), nullptr);
            EXPECT_FALSE(this->timers_[static_cast<std::size_t>(thrower)].armed());
            EXPECT_EQ(this->queue_->size(), 5U - static_cast<std::size_t>(thrower));
            this->queue_->advance(this->all_due, [&](timer& t) { fired.push_back(t.name); });
            EXPECT_EQ(fired, (names{0, 1, 2, 3, 4, 9})) << "thrower " << thrower;
        }
    }
}

TYPED_TEST(TimerQueueCallback, DoesNotReenterAdvance) {
    using timer = typename TypeParam::timer_type;
    for (const tick step : this->steps) {
        this->arm_all(step);
        this->queue_->arm_at(this->extra_, this->all_due + 1);
        const auto then = [&](timer& t) {
            const auto left = this->queue_->size();
            const auto next = this->queue_->next_expiry();
            const auto nested = [](timer&) { ADD_FAILURE() << "fired in a callback"; };
            if (t.name == 2) this->queue_->arm_after(t, 0);
            EXPECT_EQ(this->queue_->advance(this->all_due + 5, nested), 0U);
            EXPECT_EQ(this->queue_->now(), this->all_due);
            EXPECT_EQ(this->queue_->size(), left + (t.name == 2 ? 1 : 0));
            if (t.name != 2) {
                EXPECT_EQ(this->queue_->next_expiry(), next);
            }
            EXPECT_EQ(this->queue_->check(), nullptr);
        };
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), (names{0, 1, 2, 3, 4}));
        EXPECT_EQ(fired_by(*this->queue_, this->all_due + 1), (names{2, 9}));
    }
}

// A callback of one queue may drive another; timers go from hand to hand while both are running.
TYPED_TEST(TimerQueueCallback, AdvancesAnotherQueue) {
    for (const tick step : this->steps) {
        this->arm_all(step);
        TypeParam other(0);
        other.arm_at(this->extra_, 50);
        names nested;
        const auto then = [&](auto& t) {
            if (t.name != 1) return;
            nested =
                fired_by(other, 60, no_budget, [&](auto&) { other.arm_at(this->timers_[3], 61); });
            EXPECT_EQ(this->queue_->check(), nullptr);
        };
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), (names{0, 1, 2, 4}));
        EXPECT_EQ(nested, names{9});
        EXPECT_EQ(fired_by(other, 61), names{3});
    }
}

// What it asks about the future is answered for what is still to come.
TYPED_TEST(TimerQueueCallback, AsksAboutTheFuture) {
    for (const tick step : this->steps) {
        this->arm_all(step);
        this->queue_->arm_at(this->extra_, this->all_due + 500);
        const auto then = [&](auto& t) {
            const auto next = static_cast<std::size_t>(t.name) + 1;
            const auto& coming = next < 5 ? this->timers_[next] : this->extra_;
            EXPECT_EQ(this->queue_->next_expiry(), coming.deadline());
            EXPECT_EQ(this->queue_->next_bound(), coming.deadline());
            EXPECT_EQ(this->queue_->size(), 6 - next);
            std::size_t seen = 0;
            this->queue_->for_each([&](const auto&) { ++seen; });
            EXPECT_EQ(seen, 6 - next);
        };
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, no_budget, then), (names{0, 1, 2, 3, 4}));
    }
}

TYPED_TEST(TimerQueueCallback, MayLeaveABudgetUnused) {
    for (const tick step : this->steps) {
        this->arm_all(step);
        const auto then = [&](auto& t) {
            if (t.name == 1) this->queue_->arm_at(this->extra_, 0);
        };
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, 5, then), (names{0, 1, 2, 3, 4}));
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, 5), names{9});
        EXPECT_EQ(fired_by(*this->queue_, this->all_due, 5), names{});
    }
}

}  // namespace
}  // namespace verge
