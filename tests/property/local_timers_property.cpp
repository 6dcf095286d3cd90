// property/local_timers_property.cpp -- random programs at the edges of time, on local_timers and
// on a list of deadlines in 128 bits.
//
// After every step of a program the rule of verge/queue/local_timers.hpp is asserted: what
// next_expiry() says, run_due() of it runs; and a loop that does so ends.

#include <verge/queue/local_timers.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace verge {
namespace {

__extension__ using wide = __int128;

constexpr wide count_of(time_point at) {
    return at.time_since_epoch().count();
}
constexpr wide last = count_of(last_time);
constexpr wide never_due = std::numeric_limits<wide>::max();

// ---- programs ----

enum class action : std::uint8_t {
    schedule_at,
    schedule_after,
    schedule_hours,
    schedule_between,
    schedule_every,
    reschedule,
    cancel,
    run_due,
    run_next,
    run_bound,
};

constexpr std::array action_names = {
    "schedule_at", "schedule_after", "schedule_hours", "schedule_between", "schedule_every",
    "reschedule",  "cancel",         "run_due",        "run_next",         "run_bound"};

struct step {
    action what;
    std::uint64_t at;     // chooses a time, a delay or a period
    std::uint64_t until;  // chooses a second time
    unsigned timer;
    missed_ticks policy;
    std::size_t budget;
    bool reacts;  // its callback schedules another timer
};

std::ostream& operator<<(std::ostream& out, const step& s) {
    return out << '\n'
               << action_names[static_cast<std::size_t>(s.what)] << " at " << s.at << " until "
               << s.until << " timer " << s.timer << " policy " << static_cast<int>(s.policy)
               << " budget " << s.budget << (s.reacts ? " reacts" : "");
}

struct setting {
    duration resolution;
    time_point start;
};

std::ostream& operator<<(std::ostream& out, const setting& s) {
    return out << "resolution " << s.resolution.count() << " start "
               << s.start.time_since_epoch().count();
}

rc::Gen<std::uint64_t> words() {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(
                                                 0, std::numeric_limits<std::uint64_t>::max()));
}

step decode_step(std::uint64_t word) {
    using enum action;
    constexpr std::array frequent = {
        schedule_at,    schedule_at,    schedule_at,      schedule_after,
        schedule_after, schedule_hours, schedule_between, schedule_between,
        schedule_every, schedule_every, reschedule,       cancel,
        run_due,        run_next,       run_next,         run_bound};
    const auto take = [&](std::uint64_t limit) {
        const std::uint64_t value = word % limit;
        word /= limit;
        return static_cast<unsigned>(value);
    };
    step s{};
    s.what = frequent[take(frequent.size())];
    s.at = take(4096);
    s.until = take(4096);
    s.timer = take(64);
    s.policy = static_cast<missed_ticks>(take(3));
    s.budget = 1 + take(12);
    s.reacts = take(4) == 0;
    return s;
}

rc::Gen<std::vector<step>> programs() {
    return rc::gen::container<std::vector<step>>(rc::gen::map(words(), decode_step));
}

setting decode_setting(std::uint64_t word) {
    constexpr std::array<std::int64_t, 8> resolutions = {
        1, 1, 2, 7, 1000, 3'600'000'000'000, duration::max().count() / 2, duration::max().count()};
    const duration resolution(resolutions[word % 8]);
    const std::array<time_point, 8> starts = {time_point(),
                                              time_point(duration(-5)),
                                              time_point::min(),
                                              time_point(duration(12345)),
                                              last_time,
                                              last_time - duration(3),
                                              last_time - duration(4000),
                                              last_time - resolution};
    return {resolution, starts[word / 8 % 8]};
}

// ---- the model ----

class model {
public:
    struct entry {
        int name;
        wide due;  // a multiple of the resolution after the start
        std::uint64_t order;
        wide period;  // 0: it runs once
        missed_ticks policy;
        bool fresh;  // it waits for the next run_due()
    };

    explicit model(const setting& s)
        : resolution_(s.resolution.count()), start_(count_of(s.start)), now_(start_) {}

    void schedule(int name, wide due, wide period = 0, missed_ticks policy = {}) {
        entries_.push_back({name, 0, 0, period, policy, false});
        arm(entries_.back(), due);
    }

    [[nodiscard]] wide due_at(time_point deadline) const {
        return deadline == never ? never_due : up(count_of(deadline));
    }

    // The roundest tick, by definition.
    [[nodiscard]] wide due_between(time_point earliest, time_point latest) const {
        if (earliest == never) return never_due;
        const wide first = (std::max(up(count_of(earliest)), present()) - start_) / resolution_;
        const wide end = (std::min(count_of(latest), last) - start_) / resolution_;
        if (end <= first || first == 0) return start_ + first * resolution_;
        int bit = 64;
        while ((end >> bit << bit) < first)
            --bit;
        return start_ + (end >> bit << bit) * resolution_;
    }

    [[nodiscard]] wide period_of(duration period) const {
        if (period == duration::max()) return never_due;
        return (std::max<wide>(period.count(), resolution_) + resolution_ - 1) / resolution_ *
               resolution_;
    }

    [[nodiscard]] wide first_of(wide period) const {
        return period == never_due ? never_due : if_reached(up(now_) + period);
    }

    void reschedule(int name, wide due) { arm(*find(name), due); }
    void cancel(int name) { entries_.erase(find(name)); }

    void begin(time_point now) { now_ = std::max(now_, std::min(count_of(now), last)); }

    // What runs next; it has left the list, or is armed again.
    std::optional<int> run() {
        const auto next = first();
        if (next == entries_.end() || next->fresh || next->due > present()) return std::nullopt;
        const int name = next->name;
        if (next->period == 0) entries_.erase(next);
        return name;
    }

    // A periodic timer's callback has returned.
    void again(int name) {
        const auto at = find(name);
        if (at == entries_.end()) return;
        at->order = ++orders_;
        if (at->period == never_due) {
            at->due = never_due;
            return;
        }
        wide next = at->due + at->period;
        if (next < present() && at->policy == missed_ticks::delay) next = present() + at->period;
        if (next < present() && at->policy == missed_ticks::skip) {
            next += (present() - next + at->period - 1) / at->period * at->period;
        }
        at->due = if_reached(next);
    }

    void arm_fresh(int name, wide due) {
        schedule(name, due);
        if (due <= present()) entries_.back().fresh = true;
    }

    void end() {
        for (entry& e : entries_) {
            if (e.fresh) e.order = ++orders_;
            e.fresh = false;
        }
    }

    [[nodiscard]] time_point next_expiry() const {
        wide least = never_due;
        for (const entry& e : entries_)
            least = std::min(least, e.due);
        if (least == never_due) return never;
        return time_point(duration(static_cast<std::int64_t>(std::min(least, last))));
    }

    [[nodiscard]] time_point now() const {
        return time_point(duration(static_cast<std::int64_t>(now_)));
    }
    [[nodiscard]] const std::vector<entry>& entries() const { return entries_; }

private:
    using iterator = std::vector<entry>::iterator;

    iterator find(int name) {
        return std::find_if(entries_.begin(), entries_.end(),
                            [&](const entry& e) { return e.name == name; });
    }

    iterator first() {
        return std::min_element(entries_.begin(), entries_.end(),
                                [](const entry& a, const entry& b) {
                                    if (a.fresh != b.fresh) return b.fresh;
                                    if (a.due != b.due) return a.due < b.due;
                                    return a.order < b.order;
                                });
    }

    void arm(entry& e, wide due) {
        e.due = std::max(due, present());
        e.order = ++orders_;
    }

    // The first multiple of the resolution at or after a time.
    [[nodiscard]] wide up(wide at) const {
        if (at <= start_) return start_;
        return start_ + (at - start_ + resolution_ - 1) / resolution_ * resolution_;
    }

    // Rounded down, but at the end of time: after it nothing comes.
    [[nodiscard]] wide present() const {
        if (now_ == last) return up(now_);
        return start_ + (now_ - start_) / resolution_ * resolution_;
    }

    static wide if_reached(wide due) { return due > last ? never_due : due; }

    wide resolution_;
    wide start_;
    wide now_;
    std::uint64_t orders_ = 0;
    std::vector<entry> entries_;
};

// ---- both ----

class runner {
public:
    explicit runner(const setting& s)
        : setting_(s), timers_({.resolution = s.resolution, .start = s.start}), model_(s) {}

    void run(const step& s) {
        using enum action;
        const time_point at = moment(s.at);
        const int name = static_cast<int>(ids_.size());
        const auto fn = [this, name, reacts = s.reacts, word = s.until] {
            called(name, reacts, word);
        };
        switch (s.what) {
            case schedule_at:
                ids_.push_back(timers_.schedule_at(at, fn));
                model_.schedule(name, model_.due_at(at));
                break;
            case schedule_after: {
                const duration delay = length(s.at);
                ids_.push_back(timers_.schedule_after(delay, fn));
                model_.schedule(name, model_.due_at(after(delay)));
                break;
            }
            case schedule_hours: {
                const std::chrono::hours delay =
                    std::chrono::hours::max() - std::chrono::hours(s.at % 3);
                ids_.push_back(timers_.schedule_after(delay, fn));
                model_.schedule(name, never_due);
                break;
            }
            case schedule_between: {
                const time_point until = moment(s.until);
                ids_.push_back(timers_.schedule_between(at, until, fn));
                model_.schedule(name, model_.due_between(at, until));
                break;
            }
            case schedule_every: {
                const duration period = length(s.at);
                ids_.push_back(timers_.schedule_every(period, fn, s.policy));
                const wide ticks = model_.period_of(period);
                model_.schedule(name, model_.first_of(ticks), ticks, s.policy);
                break;
            }
            case reschedule:
            case cancel:
                change(s, at);
                break;
            case run_due:
                advance(at, s.budget);
                break;
            case run_next:
                advance(timers_.next_expiry(), s.budget);
                break;
            case run_bound:
                advance(timers_.next_bound(), s.budget);
                break;
        }
        compare(s.timer % 2 == 0);
    }

    // What next_expiry() says, run_due() of it runs; and all that can run does, in so many steps.
    void keeps_the_rule() {
        compare(true);
        if (const time_point next = timers_.next_expiry(); next != never) {
            RC_ASSERT(advance(next, 1) == 1U);
        }
        const std::vector<model::entry> entries = model_.entries();
        for (const model::entry& e : entries) {
            if (e.period == 0) continue;
            RC_ASSERT(timers_.cancel(ids_[static_cast<std::size_t>(e.name)]) ==
                      cancel_result::cancelled);
            model_.cancel(e.name);
        }
        quiet_ = true;
        for (std::size_t left = model_.entries().size(); timers_.next_expiry() != never; --left) {
            RC_ASSERT(left > 0U);
            RC_ASSERT(advance(timers_.next_expiry(), 1) == 1U);
        }
        compare(true);
    }

private:
    void change(const step& s, time_point at) {
        if (model_.entries().empty()) return;
        const int name = model_.entries()[s.timer % model_.entries().size()].name;
        const timer_id id = ids_[static_cast<std::size_t>(name)];
        if (s.what == action::cancel) {
            RC_ASSERT(timers_.cancel(id) == cancel_result::cancelled);
            model_.cancel(name);
        } else {
            RC_ASSERT(timers_.reschedule(id, at) == reschedule_result::pending);
            model_.reschedule(name, model_.due_at(at));
        }
    }

    std::size_t advance(time_point now, std::size_t budget) {
        const bool announced = now != never && now == timers_.next_expiry();
        model_.begin(now);
        ran_ = 0;
        const std::size_t count = timers_.run_due(now, budget);
        RC_ASSERT(count == ran_);
        RC_ASSERT(!announced || count > 0U);
        if (repeats_) model_.again(*repeats_);
        repeats_.reset();
        if (count < budget) RC_ASSERT(!model_.run().has_value());
        model_.end();
        return count;
    }

    // The callback of a timer.
    void called(int name, bool reacts, std::uint64_t word) {
        if (repeats_) model_.again(*repeats_);  // the callback before this one has returned
        repeats_.reset();
        const std::optional<int> expected = model_.run();
        RC_ASSERT(expected.has_value());
        RC_ASSERT(*expected == name);
        repeats_ = name;
        ++ran_;
        RC_ASSERT(timers_.now() == model_.now());
        if (!reacts || quiet_) return;
        const duration delay = length(word);
        const int other = static_cast<int>(ids_.size());
        ids_.push_back(timers_.schedule_after(delay, [this, other] { called(other, false, 0); }));
        model_.arm_fresh(other, model_.due_at(after(delay)));
    }

    void compare(bool exactly) {
        RC_ASSERT(timers_.now() == model_.now());
        RC_ASSERT(timers_.size() == model_.entries().size());
        const time_point next = model_.next_expiry();
        RC_ASSERT(timers_.next_bound() <= next);
        RC_ASSERT((timers_.next_bound() == never) == (next == never));
        if (exactly) RC_ASSERT(timers_.next_expiry() == next);
    }

    // now() + delay, in 128 bits.
    [[nodiscard]] time_point after(duration delay) const {
        const wide sum = count_of(model_.now()) + std::max<wide>(delay.count(), 0);
        if (sum > last) return never;
        return time_point(duration(static_cast<std::int64_t>(sum)));
    }

    [[nodiscard]] time_point moment(std::uint64_t word) const {
        const auto small = static_cast<std::int64_t>(word / 16);  // 0 to 255
        const auto offset = [&](time_point from, std::int64_t by) {
            const wide sum = count_of(from) + by;
            return time_point(duration(static_cast<std::int64_t>(
                std::clamp<wide>(sum, count_of(time_point::min()), count_of(never)))));
        };
        const std::int64_t resolution = setting_.resolution.count();
        switch (word % 16) {
            case 0:
                return never;
            case 1:
                return last_time;
            case 2:
                return offset(last_time, -small);
            case 3:
                return offset(last_time, -resolution);
            case 4:
                return offset(last_time, -(small * std::min<std::int64_t>(resolution, 1 << 30)));
            case 5:
                return time_point::min();
            case 6:
                return offset(model_.now(), -small);
            case 7:
                return offset(model_.now(), resolution);
            case 8:
                return offset(model_.now(), small * std::min<std::int64_t>(resolution, 1 << 30));
            case 9:
                return offset(model_.next_expiry(), small % 3 - 1);
            default:
                return offset(model_.now(), small);
        }
    }

    [[nodiscard]] duration length(std::uint64_t word) const {
        const auto small = static_cast<std::int64_t>(word / 8);  // 0 to 511
        switch (word % 8) {
            case 0:
                return duration::max();
            case 1:
                return duration::max() - duration(small);
            case 2:
                return duration::min();
            case 3: {
                const wide elapsed = std::max<wide>(0, count_of(model_.now()) - small);
                return duration::max() - duration(static_cast<std::int64_t>(elapsed));
            }
            case 4:
                return duration::zero();
            default:
                return duration(small);
        }
    }

    setting setting_;
    local_timers timers_;
    model model_;
    std::vector<timer_id> ids_;  // by name
    std::size_t ran_ = 0;
    std::optional<int> repeats_;  // whose callback was called last: it may be periodic
    bool quiet_ = false;
};

TEST(LocalTimersProperty, WhatNextExpirySaysRunDueOfItRuns) {
    ::setenv("RC_PARAMS", "max_success=1500", 0);
    EXPECT_TRUE(rc::check([] {
        const setting s = *rc::gen::map(words(), decode_setting);
        const auto program = *programs();
        // The rule changes what follows: so each step has a run of its own.
        for (std::size_t steps = 0; steps <= program.size(); ++steps) {
            runner both(s);
            for (std::size_t i = 0; i < steps; ++i)
                both.run(program[i]);
            both.keeps_the_rule();
        }
    }));
}

}  // namespace
}  // namespace verge
