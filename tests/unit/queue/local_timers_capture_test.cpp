// What the destructors of captured objects may do to the timers that destroy them, and what becomes
// of captured objects when memory is refused.

#include "unit/queue/local_timers_fixture.hpp"

#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include <verge/base/detail/annotate.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>

#include <sys/resource.h>
#include <unistd.h>

namespace verge {
namespace {

// ---- destructors of captures ------------------------------------------------------------------

TEST_F(LocalTimers, ADestructorSeesItsTimerOver) {
    local_timers& timers = *timers_;  // to the end of its destructor: an optional is empty by then
    timer_id id;
    int calls = 0;
    const auto schedule = [&](duration when) {
        const auto look = [&] {
            ++calls;
            EXPECT_EQ(timers.cancel(id), cancel_result::gone);
            EXPECT_EQ(timers.reschedule(id, at(2h)), reschedule_result::gone);
            EXPECT_EQ(timers.remaining(id), std::nullopt);
        };
        id = timers.schedule_at(at(when), [end = at_end(look)] {});
    };
    schedule(1h);
    timers.cancel(id);
    EXPECT_EQ(calls, 1) << "cancelled";
    schedule(1h);
    timers.clear();
    EXPECT_EQ(calls, 2) << "dropped";
    schedule(1ns);
    timers.run_due(at(1ns));
    EXPECT_EQ(calls, 3) << "run";
    schedule(1h);
    timers_.reset();
    EXPECT_EQ(calls, 4) << "destroyed with the object";
}

TEST_F(LocalTimers, ADestructorMayScheduleAndCancelDuringACancel) {
    const timer_id other = timers_->schedule_at(at(1h), note(1));
    const timer_id id = timers_->schedule_at(at(1h), [end = at_end([&] {
                                                          EXPECT_EQ(timers_->cancel(other),
                                                                    cancel_result::cancelled);
                                                          timers_->schedule_at(at(1ns), note(2));
                                                      })] {});
    EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
    EXPECT_EQ(timers_->size(), 1U);
    EXPECT_EQ(run(1h), names{2});
}

TEST_F(LocalTimers, ADestructorMayDestroyTheObjectDuringACancel) {
    const timer_id id = timers_->schedule_at(at(1h), [end = at_end([&] { timers_.reset(); })] {});
    timers_->schedule_at(at(1h), note(1));
    EXPECT_EQ(timers_->cancel(id), cancel_result::cancelled);
    EXPECT_FALSE(timers_.has_value());
}

TEST_F(LocalTimers, ClearDropsWhatIsPendingAndNothingElse) {
    const auto token = std::make_shared<int>(0);
    int made = 0;
    const auto busy = [&](duration when) {
        const auto more = [&] {
            ++made;
            timers_->schedule_at(at(0ns), note(made));  // runs at once: nearer than all others
            const timer_id brief = timers_->schedule_at(at(1h), note(-1));
            EXPECT_EQ(timers_->cancel(brief), cancel_result::cancelled);
        };
        return timers_->schedule_at(at(when), [token, end = at_end(more)] { FAIL(); });
    };
    for (const duration when : {1ns, 1ns, 70ns, 5000ns})
        busy(when);
    timers_->schedule_at(never, [token, end = at_end([&] { ++made; })] { FAIL(); });
    run(2ns, 0);  // two are due and not yet run
    timers_->clear();
    EXPECT_EQ(made, 5);
    EXPECT_EQ(token.use_count(), 1) << "all that was pending is gone";
    EXPECT_EQ(timers_->size(), 4U) << "what was scheduled meanwhile is not";
    EXPECT_EQ(timers_->stats().dropped, 5U);
    EXPECT_EQ(run(1h).size(), 4U);
}

TEST_F(LocalTimers, ADestructorMayCancelAnyDuringAClear) {
    std::vector<timer_id> ids;
    int destroyed = 0;
    for (int i = 0; i < 20; ++i) {
        ids.push_back(timers_->schedule_at(
            at(duration(1 + i * 37)), [end = at_end([&] {
                                           ++destroyed;
                                           for (const timer_id id : ids) {
                                               EXPECT_EQ(timers_->cancel(id), cancel_result::gone)
                                                   << "dropped is not cancelled";
                                           }
                                       })] {}));
    }
    timers_->clear();
    EXPECT_EQ(destroyed, 20);
    EXPECT_EQ(timers_->size(), 0U);
    EXPECT_EQ(timers_->stats().dropped, 20U);
    EXPECT_EQ(timers_->stats().cancelled, 0U);
}

TEST_F(LocalTimers, ADestructorMayClearDuringAClear) {
    constexpr int count = 50'000;  // a clear() inside each clear() would not fit on a stack
    int destroyed = 0;
    for (int i = 0; i < count; ++i) {
        timers_->schedule_at(at(duration(1 + i * 37)), [end = at_end([&] {
                                                            ++destroyed;
                                                            if (destroyed == 5)
                                                                timers_->schedule_at(at(1h),
                                                                                     note(1));
                                                            timers_->clear();
                                                        })] {});
    }
    timers_->clear();
    EXPECT_EQ(destroyed, count);
    EXPECT_EQ(timers_->size(), 0U);
    EXPECT_EQ(timers_->stats().dropped, count + 1U);
    timers_->schedule_at(at(1h), note(2));
    timers_->clear();
    EXPECT_EQ(timers_->size(), 0U) << "the next clear() works as ever";
}

TEST_F(LocalTimers, ADestructorMayDestroyTheObjectDuringAClear) {
    for (const bool from_a_callback : {false, true}) {
        make({});
        const auto token = std::make_shared<int>(0);
        int destroyed = 0;
        for (int i = 0; i < 20; ++i) {
            timers_->schedule_at(at(1s + duration(i * 37)), [token, end = at_end([&] {
                                                                        if (++destroyed == 5) {
                                                                            timers_.reset();
                                                                        }
                                                                    })] {});
        }
        if (from_a_callback) {
            timers_->schedule_at(at(1ns), [this] { timers_->clear(); });
            EXPECT_EQ(timers_->run_due(at(1h)), 1U);
        } else {
            timers_->clear();
        }
        EXPECT_EQ(destroyed, 20);
        EXPECT_EQ(token.use_count(), 1);
        EXPECT_FALSE(timers_.has_value());
    }
}

TEST_F(LocalTimers, ADestructorMayRunWhatIsDueDuringAClear) {
    for (int i = 0; i < 3; ++i) {
        timers_->schedule_at(at(1ns), [end = at_end([&] {
                                           timers_->schedule_at(at(0ns), note(1));
                                           timers_->run_due(at(1h));
                                       })] { FAIL(); });
    }
    timers_->clear();
    EXPECT_EQ(ran(), (names{1, 1, 1}));
}

TEST_F(LocalTimers, SchedulingWhileItIsDestroyedGivesAnEmptyId) {
    int refused = 0;
    const auto token = std::make_shared<int>(0);
    local_timers& dying = *timers_;
    for (int i = 0; i < 10; ++i) {
        dying.schedule_at(at(1h), [end = at_end([&, token] {
                                       if (!dying.schedule_at(at(1h), [token] {})) ++refused;
                                       if (!dying.schedule_every(1h, [token] {})) ++refused;
                                       dying.clear();
                                       EXPECT_EQ(dying.size(), 0U);
                                       EXPECT_EQ(dying.run_due(at(2h)), 0U);
                                   })] {});
    }
    timers_.reset();
    EXPECT_EQ(refused, 20);
    EXPECT_EQ(token.use_count(), 1);
}

// ---- captures without a move constructor --------------------------------------------------------

// Each move of it copies, and then destroys: its function is called at any time.
struct restless {
    std::function<void()>* then;
    ~restless() { (*then)(); }
    restless(const restless&) noexcept = default;
    restless& operator=(const restless&) = delete;
    explicit restless(std::function<void()>& function) : then(&function) {}
};

class LocalTimersWithRestlessCaptures : public LocalTimers {
protected:
    timer_id once(duration when) { return once(*timers_, when); }
    timer_id once(local_timers& timers, duration when) {
        return timers.schedule_at(at(when), [this, r = restless(then_)] { ++runs_; });
    }
    timer_id periodic(duration period) {
        return timers_->schedule_every(period, [this, r = restless(then_)] { ++runs_; });
    }

    // The ways of a timer, with what its captures do to `living_` meanwhile.  `id_` is its id, from
    // when the argument that it was scheduled with is destroyed: that is such an object too.
    void each_way(const std::function<void()>& then) {
        const auto way = [&](const std::function<void()>& go) {
            make({});
            living_ = &*timers_;
            then_ = then;
            runs_ = 0;
            id_ = {};
            go();
            then_ = [] {};
        };
        way([&] {
            id_ = once(1s);
            timers_->run_due(at(1s));
            EXPECT_EQ(runs_, 1) << "run";
            EXPECT_EQ(timers_->cancel(id_), cancel_result::gone);
            is_whole();
        });
        way([&] {
            id_ = once(1s);
            EXPECT_EQ(timers_->cancel(id_), cancel_result::cancelled);
            EXPECT_EQ(timers_->cancel(id_), cancel_result::gone);
            is_whole();
        });
        way([&] {
            id_ = once(1s);
            EXPECT_EQ(timers_->reschedule(id_, at(2s)), reschedule_result::pending);
            timers_->run_due(at(1s));
            EXPECT_EQ(runs_, 0) << "rescheduled";
            timers_->run_due(at(2s));
            EXPECT_EQ(runs_, 1) << "rescheduled";
            is_whole();
        });
        way([&] {
            id_ = periodic(1s);
            for (int i = 1; i <= 3; ++i) {
                timers_->run_due(at(i * 1s));
                EXPECT_EQ(runs_, i) << "periodic";
            }
            EXPECT_EQ(timers_->cancel(id_), cancel_result::cancelled);
            is_whole();
        });
        way([&] {
            const timer_id id = timers_->schedule_every(1s, [this, r = restless(then_)] {
                if (++runs_ == 2) {
                    EXPECT_EQ(timers_->cancel(id_), cancel_result::running);
                }
            });
            id_ = id;
            for (int i = 1; i <= 3; ++i)
                timers_->run_due(at(i * 1s));
            EXPECT_EQ(runs_, 2) << "cancelled by itself";
            is_whole();
        });
        way([&] {
            const timer_id id = timers_->schedule_every(1s, [r = restless(then_)] { throw 1; });
            id_ = id;
            EXPECT_THROW(timers_->run_due(at(1s)), int);
            EXPECT_EQ(timers_->cancel(id_), cancel_result::gone);
            is_whole();
        });
        way([&] {
            id_ = once(1s);
            periodic(1s);
            timers_->clear();
            timers_->run_due(at(1s));
            EXPECT_EQ(runs_, 0) << "dropped";
            is_whole();
        });
        way([&] {
            id_ = once(1s);
            periodic(1s);
            timers_.reset();
            EXPECT_EQ(runs_, 0) << "destroyed";
        });
        way([&] {
            once(1h);
            const timer_id id = timers_->schedule_at(at(1s), [this, r = restless(then_)] {
                ++runs_;
                timers_.reset();
                living_ = nullptr;
            });
            id_ = id;
            EXPECT_EQ(timers_->run_due(at(1s)), 1U);
            EXPECT_EQ(runs_, 1) << "destroyed by its callback";
        });
    }

    // No slot is lost, none is given twice.
    void is_whole() {
        then_ = [] {};
        timers_->clear();
        ran();
        std::vector<timer_id> ids;
        for (int i = 0; i < 100; ++i)
            ids.push_back(timers_->schedule_at(timers_->now() + 1s, note(i)));
        EXPECT_EQ(timers_->size(), 100U);
        for (std::size_t i = 0; i < ids.size(); i += 2)
            EXPECT_EQ(timers_->cancel(ids[i]), cancel_result::cancelled);
        EXPECT_EQ(timers_->run_due(timers_->now() + 1s), 50U);
        EXPECT_EQ(ran().size(), 50U);
        EXPECT_EQ(timers_->size(), 0U);
    }

    std::function<void()> then_ = [] {};
    local_timers* living_ = nullptr;  // to the end of its destructor: an optional is empty by then
    timer_id id_;
    int runs_ = 0;
};

TEST_F(LocalTimersWithRestlessCaptures, CancelThemselves) {
    each_way([&] {
        if (living_ != nullptr) living_->cancel(id_);
    });
}

TEST_F(LocalTimersWithRestlessCaptures, Schedule) {
    each_way([&] {
        if (living_ == nullptr) return;
        living_->schedule_at(at(1h), note(1));
        living_->schedule_every(1h, note(2));
    });
}

TEST_F(LocalTimersWithRestlessCaptures, CancelOthers) {
    std::vector<timer_id> others;
    int depth = 0;
    each_way([&] {
        if (living_ == nullptr) return;
        ++depth;
        // The others have such a capture too, and so cancel one another.
        while (!others.empty()) {
            const timer_id other = others.back();
            others.pop_back();
            living_->cancel(other);
        }
        if (depth == 1) {
            for (int i = 0; i < 5; ++i)
                others.push_back(once(*living_, 1h));
        }
        --depth;
    });
}

TEST_F(LocalTimersWithRestlessCaptures, ClearAndTrim) {
    const auto clear = [&] {
        timers_->clear();
        timers_->trim();
    };
    then_ = clear;
    once(1s);
    EXPECT_EQ(timers_->size(), 0U) << "the argument is destroyed last";
    then_ = [] {};
    once(1s);
    periodic(1s);
    then_ = clear;
    timers_->run_due(at(1s));
    EXPECT_EQ(runs_, 1) << "at its end the first drops the second";
    EXPECT_EQ(timers_->size(), 0U);
    is_whole();
}

TEST_F(LocalTimersWithRestlessCaptures, TakeTheLastPlaceThemselves) {
    make({.max_timers = 1});
    bool taken = false;
    then_ = [&] {
        if (!taken) taken = static_cast<bool>(timers_->schedule_at(at(1h), note(1)));
    };
    EXPECT_FALSE(once(1s)) << "its capture came first";
    EXPECT_TRUE(taken);
    EXPECT_EQ(timers_->size(), 1U);
    EXPECT_EQ(timers_->stats().rejected, 1U);
    then_ = [] {};
}

// Whichever destructor it is, in whichever function.
TEST_F(LocalTimersWithRestlessCaptures, DestroyTheObjectAtAnyStep) {
    bool reached = true;
    for (int nth = 1; reached; ++nth) {
        SCOPED_TRACE(nth);
        make({});
        reached = false;
        int calls = 0;
        then_ = [&] {
            if (++calls != nth) return;
            reached = true;
            timers_.reset();
        };
        timer_id id;
        if (timers_) id = once(1s);
        if (timers_) timers_->cancel(id);
        if (timers_) periodic(1s);
        if (timers_) once(1s);
        if (timers_) timers_->run_due(at(1s));
        if (timers_) timers_->clear();
        then_ = [] {};
        EXPECT_NE(timers_.has_value(), reached);
    }
}

// ---- memory -----------------------------------------------------------------------------------

// Counts its living copies: a callable that is lost or destroyed twice shows.
struct bulky {
    explicit bulky(int& living) : count(&living) { ++*count; }
    bulky(const bulky& other) : count(other.count) { ++*count; }
    bulky(bulky&& other) noexcept : count(other.count) { ++*count; }
    bulky& operator=(const bulky&) = delete;
    bulky& operator=(bulky&&) = delete;
    ~bulky() { --*count; }
    void operator()() const {}

    int* count;
    std::array<char, 100> bulk{};  // too large for a callback to keep inside
};
static_assert(!callback::fits<bulky>);

#if VERGE_CAN_REFUSE_MEMORY
TEST_F(LocalTimers, SchedulesNothingWhenMemoryIsRefused) {
    int living = 0;
    for (int nth = 1;; ++nth) {
        SCOPED_TRACE(nth);
        std::optional<local_timers> timers;
        int scheduled = 0;
        bool struck = false;
        try {
            const failing_new failing(nth);
            timers.emplace(local_timers::options{.reserve = 10});
            for (; scheduled < 1100; ++scheduled) {  // more than a chunk
                if (scheduled % 550 == 0) {
                    timers->schedule_every(1s, bulky(living));
                } else if (scheduled % 550 == 549) {
                    timers->schedule_between(at(1s), at(2s), bulky(living));
                } else {
                    timers->schedule_at(at(1s), [] {});
                }
            }
        } catch (const std::bad_alloc&) {
            struck = true;
        }
        if (timers) {
            EXPECT_EQ(timers->size(), static_cast<std::size_t>(scheduled));
            EXPECT_EQ(timers->stats().scheduled, static_cast<std::uint64_t>(scheduled));
            EXPECT_TRUE(timers->schedule_at(at(1s), [] {})) << "and the next works";
            EXPECT_EQ(timers->run_due(at(2500ms)), static_cast<std::size_t>(scheduled) + 1);
            timers.reset();
        }
        EXPECT_EQ(living, 0);
        if (!struck) {
            EXPECT_GT(nth, 6) << "the object, two chunks and four callables at least";
            break;
        }
    }
}

TEST_F(LocalTimers, AReservedTimerNeedsNoMemory) {
    make({.reserve = 3000});
    const failing_new next(1);
    for (int i = 0; i < 3000; ++i) {
        timers_->schedule_at(at(duration(i % 100)), [this] { static_cast<void>(this); });
    }
    EXPECT_FALSE(next.struck());
    EXPECT_EQ(timers_->run_due(at(1s)), 3000U);
    EXPECT_FALSE(next.struck()) << "nor does running allocate";
}
#endif

TEST_F(LocalTimers, RefusesToReserveMoreThanThereCanBe) {
    EXPECT_THROW(local_timers({.reserve = std::numeric_limits<std::size_t>::max()}),
                 std::bad_alloc);
}

#if !VERGE_HAS_SANITIZER  // a sanitizer needs address space of its own
// In a process of its own, where the system refuses memory.  Says how far it came.
int timers_stay_whole_without_memory() {
    local_timers timers;
    int runs = 0;
    while (timers.size() < 1024)
        timers.schedule_at(at(1s), [&runs] { ++runs; });  // a whole chunk
    rlimit all{};
    if (::getrlimit(RLIMIT_AS, &all) != 0) return 2;
    const rlimit none{1, all.rlim_max};
    if (::setrlimit(RLIMIT_AS, &none) != 0) return 3;
    int refused = 0;
    for (int i = 0; i < 10; ++i) {
        try {
            timers.schedule_at(at(1s), [&runs] { ++runs; });
        } catch (const std::bad_alloc&) {
            ++refused;
        }
    }
    if (refused != 10 || timers.size() != 1024 || timers.stats().scheduled != 1024) return 4;
    if (timers.run_due(at(1s)) != 1024 || runs != 1024) return 5;
    if (!timers.schedule_at(at(2s), [] {})) return 6;
    return 0;
}

TEST(LocalTimersDeathTest, StayWholeWhenTheSystemRefusesMemory) {
    EXPECT_EXIT(::_exit(timers_stay_whole_without_memory()), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace verge
