// Random programs of all operations of a timer service, against a std::multimap.
//
// A program is a list of steps, run by one thread that plays all: those that arm and cancel, in the
// shard that each step says, the waiter, and an executor that begins and ends timers in any order.
// The callbacks of a run_due() take their steps from the same list, so all that can be done outside
// is also done inside.  After each step the service is asked everything that it can be asked.
//
// With one shard the model knows exactly what is collected next.  With several it knows what may
// be: in order of deadline, but that a deadline in the past counts as armed at now, and which now a
// shard knows of is its own affair.
//
//     RC_PARAMS="max_success=100000" build/dev/tests/property_tests      a long run
//
// A failure prints the least program that shows it.

#include <verge/driver/timer_service.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace verge {
namespace {

// ---- programs ----

enum class action : std::uint8_t {
    arm,
    arm_between,
    cancel,
    cancel_and_wait,
    rearm,
    advance,
    collect,
    begin,
    end,
    end_and_begin,
    again,
    drop,
    run_due,
    fail,
    prepare_wait,
    trim,
    close,
};

constexpr std::array action_names = {"arm",     "arm_between",   "cancel",       "cancel_and_wait",
                                     "rearm",   "advance",       "collect",      "begin",
                                     "end",     "end_and_begin", "again",        "drop",
                                     "run_due", "fail",          "prepare_wait", "trim",
                                     "close"};

struct step {
    action what;
    unsigned shard;
    unsigned which;  // of what there is to choose from
    int level;       // of the distance
    int factor;
    bool past;
    bool is_never;
    std::size_t room;
    std::size_t reactions;  // how many of the steps that follow are for the callbacks
};

std::uint64_t scrambled(std::uint64_t word) {
    word = (word ^ (word >> 31)) * 0x9e3779b97f4a7c15;
    return word ^ (word >> 29);
}

step decode_step(std::uint64_t word) {
    using enum action;
    constexpr std::array frequent = {
        arm,          arm,           arm,          arm,          arm,
        arm,          arm,           arm,          arm_between,  cancel,
        cancel,       cancel,        rearm,        rearm,        rearm,
        rearm,        advance,       advance,      advance,      advance,
        collect,      collect,       collect,      collect,      begin,
        begin,        begin,         begin,        end,          end,
        end,          again,         again,        drop,         drop,
        trim,         end_and_begin, fail,         run_due,      run_due,
        run_due,      run_due,       prepare_wait, prepare_wait, cancel_and_wait,
        end_and_begin};
    const auto below = [&word](unsigned limit) {
        const auto value = static_cast<unsigned>(word % limit);
        word /= limit;
        return value;
    };
    step s{};
    const unsigned kind = below(256);
    s.what = kind == 255 ? close : frequent[kind % frequent.size()];
    word = scrambled(word);
    s.which = below(1024);
    s.factor = static_cast<int>(below(5));
    s.level = static_cast<int>(std::min({below(24), below(24), below(24)}));
    s.past = below(8) == 0;
    s.is_never = below(32) == 0;
    s.shard = below(8);
    s.room = below(3) == 0 ? 64 : below(5);
    s.reactions = below(2) == 0 ? below(6) : 0;
    return s;
}

std::ostream& operator<<(std::ostream& out, const step& s) {
    out << '\n' << action_names[static_cast<std::size_t>(s.what)] << " which " << s.which;
    out << " shard " << s.shard << " distance " << s.factor << " << " << 2 * s.level;
    if (s.past) out << " in the past";
    if (s.is_never) out << " (never)";
    return out << " room " << s.room << " reactions " << s.reactions;
}

rc::Gen<std::vector<step>> programs() {
    const auto word = rc::gen::inRange<std::uint64_t>(0, never_tick);
    return rc::gen::scale(4,
                          rc::gen::container<std::vector<step>>(rc::gen::map(word, decode_step)));
}

// ---- the service's world ----

// The test says on which thread it is.
struct acting_platform : service_platform {
    static inline unsigned acting = 0;
    static unsigned thread_number() noexcept {
        return acting + 840;
    }  // 840 is 0 for up to 8 shards
};

// A payload that knows its name and says when it is destroyed.
class item {
public:
    item(unsigned name, std::vector<int>& destroyed) : name_(name), destroyed_(&destroyed) {}
    item(item&& other) noexcept
        : name_(other.name_), destroyed_(std::exchange(other.destroyed_, nullptr)) {}
    item& operator=(item&&) = delete;
    item(const item&) = delete;
    item& operator=(const item&) = delete;
    ~item() {
        if (destroyed_ != nullptr) ++(*destroyed_)[name_];
    }
    [[nodiscard]] unsigned name() const { return name_; }

private:
    unsigned name_;
    std::vector<int>* destroyed_;
};

struct bell final : timer_waker {
    int rings = 0;
    void wake_before(time_point) noexcept override { ++rings; }
};

struct thrown_by_a_callback {};

constexpr time_point at(tick when) {
    return when == never_tick ? never : time_point(duration(static_cast<duration::rep>(when)));
}
tick tick_of(time_point when) {
    return when == never ? never_tick : static_cast<tick>(when.time_since_epoch().count());
}

// ---- the model, and the program run on both ----

class runner {
    using service = basic_timer_service<item, acting_platform>;
    enum class state : std::uint8_t { armed, due, running, over };

    struct timer {
        timer_id id;
        state now = state::armed;
        tick deadline = 0;
        unsigned shard = 0;
        int turn = 0;            // how often it was collected
        bool cancelled = false;  // while it ran
        bool was_past = false;   // when it was armed
    };
    struct entry {  // of a batch
        due_timer due;
        unsigned name;
        int turn;
    };
    struct running {
        service::running_timer handle;
        unsigned name;
    };

public:
    runner(std::size_t shards, std::size_t max_timers, tick start)
        : shards_(shards),
          max_timers_(max_timers),
          now_(start),
          service_(bell_, {.shards = shards, .max_timers = max_timers, .start = at(start)}),
          orders_(shards) {}

    void run(const std::vector<step>& program) {
        destroyed_.resize(program.size());
        rest_ = program.begin();
        end_ = program.end();
        while (rest_ != end_) {
            run(*rest_++);
            compare();
        }
        while (!running_.empty())
            end(0);
        service_.close();
        close();
        compare();
        for (unsigned name = 0; name < timers_.size(); ++name)
            RC_ASSERT(destroyed_[name] == 1);
    }

private:
    void run(const step& s) {
        acting_platform::acting = s.shard;
        switch (s.what) {
            case action::arm:
            case action::arm_between:
                arm(s);
                break;
            case action::cancel:
            case action::cancel_and_wait:
                cancel(s);
                break;
            case action::rearm:
                rearm(s);
                break;
            case action::advance:
                if (depth_ == 0) now_ += distance(s);  // a run_due() has one now
                break;
            case action::collect:
                collect(s);
                break;
            case action::begin:
                if (!batch_.empty()) begin(take(batch_, s.which), std::nullopt);
                break;
            case action::end:
                if (!running_.empty()) end(s.which % running_.size());
                break;
            case action::end_and_begin:
                if (!running_.empty() && !batch_.empty()) {
                    begin(take(batch_, s.which), take(running_, s.which));
                }
                break;
            case action::again:
                if (!running_.empty()) again(s);
                break;
            case action::drop:
                if (!batch_.empty()) drop(take(batch_, s.which));
                break;
            case action::run_due:
                run_due(s);
                break;
            case action::fail:
                if (depth_ > 0) throw thrown_by_a_callback();
                break;
            case action::prepare_wait:
                prepare_wait();
                break;
            case action::trim:
                service_.trim();
                break;
            case action::close:
                service_.close();
                close();
                break;
        }
    }

    // ---- arming ----

    void arm(const step& s) {
        const tick from = moment(s);
        const tick to = s.what == action::arm ? from : tick_after(from, distance(s));
        const auto name = static_cast<unsigned>(timers_.size());
        const std::size_t live = live_;
        timer t;
        t.shard = s.shard % static_cast<unsigned>(shards_);
        t.id = s.what == action::arm
                   ? service_.arm(at(from), item(name, destroyed_))
                   : service_.arm_between(at(from), at(to), item(name, destroyed_));
        if (closed_ || live >= max_timers_) {
            RC_ASSERT(!t.id);
            RC_ASSERT(std::exchange(destroyed_[name], 0) == 1);
            ++expected_.rejected;
            return;
        }
        RC_ASSERT(static_cast<bool>(t.id));
        ++expected_.scheduled;
        ++live_;
        timers_.push_back(t);
        file(name, from, to);
    }

    // The timer is armed for somewhere in [from, to]: the service says where.
    void file(unsigned name, tick from, tick to) {
        timer& t = timers_[name];
        const std::optional<time_point> told = service_.deadline_of(t.id);
        RC_ASSERT(told.has_value());
        const tick deadline = tick_of(*told);
        RC_ASSERT(deadline >= from);
        RC_ASSERT(deadline <= std::max(to, now_) || (to == never_tick && *told == never));
        t.was_past = from <= now_;
        t.deadline = deadline;
        t.now = state::armed;
        order_of(name).emplace(deadline, name);
        // Whoever sleeps for longer is woken, and nobody else.  (More than once is allowed.)
        const bool wakes = sleeps_until_ && deadline < *sleeps_until_;
        if (knows_sleep_) RC_ASSERT((bell_.rings > 0) == wakes);
        bell_.rings = 0;
        if (wakes) knows_sleep_ = false;
    }

    void rearm(const step& s) {
        if (timers_.empty()) return;
        const unsigned name = s.which % static_cast<unsigned>(timers_.size());
        timer& t = timers_[name];
        const tick when = moment(s);
        const reschedule_result result = service_.rearm(t.id, at(when));
        if (t.now == state::over) {
            RC_ASSERT(result == reschedule_result::gone);
        } else if (t.now == state::running) {
            RC_ASSERT(result == reschedule_result::running);
        } else {
            RC_ASSERT(result == reschedule_result::pending);
            if (t.now == state::armed) unfile(name);
            ++expected_.rescheduled;
            file(name, when, when);
        }
    }

    void again(const step& s) {
        const running r = take(running_, s.which);
        timer& t = timers_[r.name];
        const tick when = moment(s);
        tick armed_as = 0;
        service_.again(r.handle, at(when), armed_as);
        if (t.cancelled || closed_) {
            over(r.name);
        } else {
            file(r.name, when, when);
            RC_ASSERT(at(armed_as) == at(t.deadline));
        }
    }

    // ---- ending ----

    void cancel(const step& s) {
        if (timers_.empty()) return;
        const unsigned name = s.which % static_cast<unsigned>(timers_.size());
        timer& t = timers_[name];
        const bool inside = std::count(ending_.begin(), ending_.end(), name) > 0;
        const bool waits = s.what == action::cancel_and_wait && (t.now != state::running || inside);
        const cancel_result result = waits ? service_.cancel_and_wait(t.id) : service_.cancel(t.id);
        if (t.now == state::over) {
            RC_ASSERT(result == cancel_result::gone);
        } else if (t.now == state::running) {
            RC_ASSERT(result == cancel_result::running);
            t.cancelled = true;
        } else {
            RC_ASSERT(result == cancel_result::cancelled);
            if (t.now == state::armed) unfile(name);
            ++expected_.cancelled;
            over(name);
        }
    }

    void drop(const entry& e) {
        const bool valid = is_due(e);
        RC_ASSERT(service_.drop(e.due) == valid);
        if (!valid) return;
        ++expected_.dropped;
        over(e.name);
    }

    void end(std::size_t which) {
        const running r = take(running_, which);
        service_.end(r.handle);
        over(r.name);
    }

    void close() {
        for (unsigned name = 0; name < timers_.size(); ++name) {
            if (timers_[name].now == state::running || timers_[name].now == state::over) continue;
            ++expected_.dropped;
            over(name);
        }
        for (order& o : orders_)
            o.clear();
        closed_ = true;
    }

    void over(unsigned name) {
        timers_[name].now = state::over;
        --live_;
        RC_ASSERT(destroyed_[name] == 1);
    }

    // ---- the waiter ----

    void collect(const step& s) {
        // What a run_due() has left over may be stale by now, which only the service knows.
        if (depth_ > 0 || left_over_) return;
        due_timer out[64];
        const bool something = s.room > 0 && anything_due();
        const std::size_t count = service_.collect(at(now_), out, s.room);
        is_awake();
        RC_ASSERT(count <= s.room);
        RC_ASSERT((count > 0) == something);
        for (std::size_t i = 0; i < count; ++i) {
            const unsigned name = name_of(out[i].id);
            expect_next(name);
            collected(name);
            RC_ASSERT(out[i].shard == timers_[name].shard);
            RC_ASSERT(out[i].deadline == timers_[name].deadline);
            batch_.push_back({out[i], name, timers_[name].turn});
        }
        if (shards_ == 1) RC_ASSERT(count == s.room || !anything_due());
    }

    void begin(const entry& e, std::optional<running> ended) {
        const bool valid = is_due(e);
        service::running_timer now_running;
        if (ended) {
            now_running = service_.end_and_begin(ended->handle, e.due);
            over(ended->name);
        } else {
            now_running = service_.begin(e.due);
        }
        RC_ASSERT(static_cast<bool>(now_running) == valid);
        if (!valid) return;
        RC_ASSERT(now_running.payload().name() == e.name);
        begun(e.name);
        running_.push_back({now_running, e.name});
    }

    void begun(unsigned name) {
        timers_[name].now = state::running;
        timers_[name].cancelled = false;
        ++expected_.fired;
    }

    void run_due(const step& s) {
        if (s.room == 0) {
            RC_ASSERT(service_.run_due(
                          at(now_), [](item&) {}, 0) == 0U);
            return;
        }
        const std::size_t base = ending_.size();
        const auto all_are_over = [&] {
            for (; ending_.size() > base; ending_.pop_back())
                over(ending_.back());
        };
        std::size_t fired = 0;
        std::size_t reactions = s.reactions;
        const auto fire = [&](item& payload) {
            all_are_over();
            const unsigned name = payload.name();
            expect_next(name);
            collected(name);
            begun(name);
            ending_.push_back(name);
            ++fired;
            if (reactions == 0 || rest_ == end_) return;
            --reactions;
            ++depth_;
            struct leaving {
                int& depth;
                ~leaving() { --depth; }
            } const scope{depth_};
            run(*rest_++);
            compare();
        };
        is_awake();
        bool thrown = false;
        try {
            RC_ASSERT(service_.run_due(at(now_), fire, s.room) == fired);
        } catch (const thrown_by_a_callback&) {
            thrown = true;
        }
        all_are_over();
        left_over_ = thrown || depth_ > 0 || (left_over_ && fired == s.room);
        RC_ASSERT(fired <= s.room);
        if (!thrown && fired < s.room) RC_ASSERT(!anything_due());
    }

    void prepare_wait() {
        const tick until = tick_of(service_.prepare_wait());
        for (const timer& t : timers_) {
            if (t.now == state::armed) RC_ASSERT(until <= t.deadline || until <= now_);
        }
        // With something left over, it does not prepare for anything.
        knows_sleep_ = !left_over_ && depth_ == 0;
        sleeps_until_ = until;
    }

    void is_awake() {
        knows_sleep_ = true;
        sleeps_until_.reset();
    }

    // ---- what the model knows ----

    using order = std::multimap<tick, unsigned>;  // equal keys stay in the order of insertion

    order& order_of(unsigned name) { return orders_[timers_[name].shard]; }

    void unfile(unsigned name) {
        order& o = order_of(name);
        const auto [first, last] = o.equal_range(timers_[name].deadline);
        o.erase(std::find_if(first, last, [&](const auto& e) { return e.second == name; }));
    }

    void collected(unsigned name) {
        unfile(name);
        timers_[name].now = state::due;
        ++timers_[name].turn;
    }

    // The timer is the first of its shard, and none that was armed in time is before it.
    void expect_next(unsigned name) {
        const timer& t = timers_[name];
        RC_ASSERT(t.now == state::armed);
        RC_ASSERT(t.deadline <= now_);
        RC_ASSERT(order_of(name).begin()->second == name);
        for (const timer& other : timers_) {
            if (other.now != state::armed || other.was_past) continue;
            RC_ASSERT(other.deadline >= t.deadline);
        }
    }

    [[nodiscard]] bool anything_due() const {
        return std::any_of(timers_.begin(), timers_.end(), [this](const timer& t) {
            return t.now == state::armed && t.deadline <= now_;
        });
    }

    [[nodiscard]] bool is_due(const entry& e) const {
        return timers_[e.name].now == state::due && timers_[e.name].turn == e.turn;
    }

    [[nodiscard]] unsigned name_of(timer_id id) const {
        const auto found = std::find_if(timers_.begin(), timers_.end(),
                                        [id](const timer& t) { return t.id == id; });
        RC_ASSERT(found != timers_.end());
        return static_cast<unsigned>(found - timers_.begin());
    }

    void compare() {
        std::uint64_t pending = 0;
        for (const timer& t : timers_) {
            const bool waits = t.now == state::armed || t.now == state::due;
            const std::optional<time_point> told = service_.deadline_of(t.id);
            RC_ASSERT(told.has_value() == waits);
            if (waits) RC_ASSERT(*told == at(t.deadline));
            if (waits) ++pending;
        }
        const timer_stats stats = service_.stats();
        RC_ASSERT(stats.scheduled == expected_.scheduled);
        RC_ASSERT(stats.cancelled == expected_.cancelled);
        RC_ASSERT(stats.rescheduled == expected_.rescheduled);
        RC_ASSERT(stats.fired == expected_.fired);
        RC_ASSERT(stats.dropped == expected_.dropped);
        RC_ASSERT(stats.rejected == expected_.rejected);
        RC_ASSERT(stats.pending == pending);
    }

    // ---- choices ----

    static tick distance(const step& s) { return static_cast<tick>(s.factor) << (2 * s.level); }

    [[nodiscard]] tick moment(const step& s) const {
        if (s.is_never) return never_tick;
        return s.past ? now_ - std::min(now_, distance(s)) : now_ + distance(s);
    }

    template <class T>
    static T take(std::vector<T>& from, std::size_t which) {
        const auto chosen = from.begin() + static_cast<std::ptrdiff_t>(which % from.size());
        const T taken = *chosen;
        from.erase(chosen);
        return taken;
    }

    std::size_t shards_;
    std::size_t max_timers_;
    tick now_;
    bell bell_;
    std::vector<int> destroyed_;  // by name
    service service_;
    std::vector<timer> timers_;  // by name
    std::vector<order> orders_;  // by shard: what is armed
    std::vector<entry> batch_;
    std::vector<running> running_;
    std::vector<unsigned> ending_;  // run by run_due(), and not yet seen to be over
    timer_stats expected_;
    std::size_t live_ = 0;
    bool closed_ = false;
    int depth_ = 0;            // how many callbacks of run_due() this is inside of
    bool left_over_ = false;   // perhaps: a run_due() may have collected more than it ran
    bool knows_sleep_ = true;  // whether the next is what the service knows
    std::optional<tick> sleeps_until_;
    std::vector<step>::const_iterator rest_;
    std::vector<step>::const_iterator end_;
};

void follows_the_model(std::vector<std::size_t> shard_counts) {
    // Programs enough for some ten seconds of a debug build, unless the user says how many.
    ::setenv("RC_PARAMS", "max_success=1000", 0);
    EXPECT_TRUE(rc::check([&] {
        const auto shards = *rc::gen::elementOf(shard_counts);
        const auto limit = *rc::gen::element(timer_service_options::unlimited, std::size_t{3},
                                             std::size_t{20}, std::size_t{0});
        const auto start = *rc::gen::element<tick>(0, 1, 4095, 1'700'000'000'000'000'000);
        const auto program = *programs();
        runner(shards, limit, start).run(program);
    }));
}

TEST(TimerServiceProperty, OneShardFollowsTheModel) {
    follows_the_model({1});
}

TEST(TimerServiceProperty, SeveralShardsFollowTheModel) {
    follows_the_model({2, 3, 8});
}

}  // namespace
}  // namespace verge
