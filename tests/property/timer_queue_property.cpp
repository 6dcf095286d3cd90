// Random programs of all operations of a timer queue, against a std::multimap.
//
// A program is a list of steps.  The callbacks of an advance take their steps from the same list,
// so all that can be done outside is also done inside.  After each step the queue is asked
// everything that it can be asked, and the model knows the answer.
//
//     RC_PARAMS="max_success=1000000" build/dev/tests/property_tests     a long run
//
// A failure prints the least program that shows it.

#include "support/wheel_access.hpp"
#include "support/wheel_seams.hpp"
#include <verge/queue/timer_heap.hpp>
#include <verge/queue/timing_wheel.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace verge {
namespace {

// ---- programs ----

enum class action : std::uint8_t {
    arm_at,
    arm_after,
    arm_in_range,
    arm_elsewhere,
    arm_next,
    cancel,
    destroy,
    take_any,
    clear,
    rebuild,
    fail,
    advance,
};

constexpr std::array action_names = {"arm_at",   "arm_after", "arm_in_range", "arm_elsewhere",
                                     "arm_next", "cancel",    "destroy",      "take_any",
                                     "clear",    "rebuild",   "fail",         "advance"};

// How a tick is chosen, when the step is run.
enum class choice : std::uint8_t {
    near,      // now, give or take
    distance,  // some slots of a level away, give or take one tick
    seam,      // where a slot of a level begins, give or take one tick
    crowd,     // in the next slot of a level: one of its first ticks, or of the slots below it
    same,      // the deadline of an armed timer, give or take one tick
    equal,     // the deadline of an armed timer
    next,      // the next expiry, give or take one tick
    past,
    last,  // the end of time
    never,
    any,
};

constexpr std::array choice_names = {"near", "distance", "seam", "crowd", "same", "equal",
                                     "next", "past",     "last", "never", "any"};

struct moment {
    choice how;
    unsigned level;
    unsigned factor;  // 0 to 15
    int around;       // -1 to 1
    unsigned timer;
    std::uint64_t bits;
};

struct step {
    action what;
    unsigned timer;
    bool self;  // in a callback its own timer instead, elsewhere the next to fire
    moment at;
    moment until;
    std::size_t budget;
    std::size_t reactions;  // how many of the steps that follow are for the callbacks
};

// Reads fields out of a random word.  The first fields come from the low bits, which a shrinking
// word keeps.
class word_reader {
public:
    explicit word_reader(std::uint64_t word) : word_(word) {}
    unsigned below(unsigned limit) {
        const auto value = static_cast<unsigned>(word_ % limit);
        word_ /= limit;
        return value;
    }

private:
    std::uint64_t word_;
};

std::uint64_t scrambled(std::uint64_t word) {
    word = (word ^ (word >> 31)) * 0x9e3779b97f4a7c15;
    return word ^ (word >> 29);
}

moment decode_moment(std::uint64_t word, std::span<const choice> frequent) {
    word_reader read(word);
    moment m{};
    m.how = frequent[read.below(static_cast<unsigned>(frequent.size()))];
    m.around = static_cast<int>(read.below(3)) - 1;
    m.level =
        std::min({read.below(wheel_levels), read.below(wheel_levels), read.below(wheel_levels)});
    m.factor = read.below(16);
    m.timer = read.below(1024);
    const std::uint64_t bits = scrambled(word);
    m.bits = bits >> (bits % 64);
    return m;
}

moment decode_deadline(std::uint64_t word) {
    using enum choice;
    constexpr std::array frequent = {near,  near,  distance, distance, seam,  seam, crowd,
                                     crowd, crowd, crowd,    crowd,    crowd, same, equal,
                                     equal, equal, past,     never,    last,  any};
    return decode_moment(word, frequent);
}

// Time passes in small steps: a leap to the end would leave nothing to do for the rest.
moment decode_now(std::uint64_t word) {
    using enum choice;
    constexpr std::array frequent = {near, next, next, next, crowd, distance, seam, past};
    constexpr std::array seldom = {last, never, any, any};
    if (word % 64 == 63) return decode_moment(word / 64, seldom);
    moment m = decode_moment(word / 64, frequent);
    m.level %= 4;
    return m;
}

step decode_step(std::uint64_t word) {
    using enum action;
    constexpr std::array frequent = {
        advance, advance, advance, advance,   advance,   arm_at,    arm_at,       arm_at,
        arm_at,  arm_at,  arm_at,  arm_at,    arm_at,    arm_at,    arm_at,       arm_at,
        arm_at,  arm_at,  arm_at,  arm_after, arm_after, arm_after, arm_in_range, arm_in_range,
        cancel,  cancel,  cancel,  cancel,    destroy,   arm_next,  take_any,     arm_elsewhere};
    constexpr std::array seldom = {clear, rebuild, fail, fail};
    word_reader read(word);
    step s{};
    const unsigned kind = read.below(64);
    s.what = kind == 63 ? seldom[read.below(seldom.size())] : frequent[kind % frequent.size()];
    s.timer = read.below(1024);
    s.self = read.below(4) == 0;
    const std::uint64_t at = scrambled(word + 1);
    s.at = s.what == advance ? decode_now(at) : decode_deadline(at);
    s.until = decode_deadline(scrambled(word + 2));
    s.budget = read.below(3) == 0 ? read.below(6) : no_budget;
    s.reactions = read.below(6);
    return s;
}

std::ostream& operator<<(std::ostream& out, const moment& m) {
    return out << choice_names[static_cast<std::size_t>(m.how)] << "(level " << m.level
               << ", factor " << m.factor << ", around " << m.around << ", timer " << m.timer
               << ')';
}

std::ostream& operator<<(std::ostream& out, const step& s) {
    out << '\n' << action_names[static_cast<std::size_t>(s.what)] << " timer " << s.timer;
    if (s.self) out << " (itself, or the next)";
    out << " at " << s.at;
    if (s.what == action::arm_in_range) out << " until " << s.until;
    if (s.what == action::advance) {
        if (s.budget != no_budget) out << " budget " << s.budget;
        out << " with " << s.reactions << " steps for callbacks";
    }
    return out;
}

// Any word, whatever the size that rapidcheck asks for.
rc::Gen<std::uint64_t> words() {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(0, never_tick));
}

rc::Gen<std::vector<step>> programs() {
    const auto steps = rc::gen::map(words(), decode_step);
    return rc::gen::scale(4, rc::gen::container<std::vector<step>>(steps));
}

// ---- the model ----

class model {
public:
    model(tick start, std::size_t count)
        : now_(std::min(start, never_tick - 1)),
          deadlines_(count),
          places_(count, place::nowhere) {}

    void arm(unsigned timer, tick deadline) {
        remove(timer);
        if (deadline > now_) {
            insert(timer, deadline);
        } else if (!running_) {
            insert(timer, now_);
        } else {
            fresh_.push_back(timer);
            deadlines_[timer] = now_;
            places_[timer] = place::fresh;
        }
    }

    void arm_next(unsigned timer, tick deadline) {
        if (!running_ || deadline <= firing_) {
            arm(timer, deadline);
        } else {
            remove(timer);
            insert(timer, deadline);
        }
    }

    void arm_in_range(unsigned timer, tick earliest, tick latest) {
        const tick deadline = deadlines_[timer];
        if (armed(timer) && deadline >= earliest && deadline <= latest) return;
        arm(timer, roundest(std::max(earliest, now_), latest));
    }

    bool remove(unsigned timer) {
        switch (places_[timer]) {
            case place::nowhere:
                return false;
            case place::fresh:
                fresh_.erase(std::find(fresh_.begin(), fresh_.end(), timer));
                break;
            case place::ordered:
                ordered_.erase(find(timer));
                break;
        }
        places_[timer] = place::nowhere;
        bounds_exact_ = false;
        return true;
    }

    void clear() {
        ordered_.clear();
        fresh_.clear();
        std::fill(places_.begin(), places_.end(), place::nowhere);
    }

    void begin_advance(tick now) {
        now_ = std::max(now_, std::min(now, never_tick - 1));
        running_ = true;
    }

    // Takes out the next timer that is due in this advance.
    std::optional<unsigned> fire() {
        if (ordered_.empty() || ordered_.begin()->first > now_) return std::nullopt;
        const unsigned timer = ordered_.begin()->second;
        firing_ = ordered_.begin()->first;
        ordered_.erase(ordered_.begin());
        places_[timer] = place::nowhere;
        return timer;
    }

    // What was armed meanwhile for now takes its turn behind all that is due.
    void end_advance() {
        running_ = false;
        for (const unsigned timer : fresh_)
            insert(timer, now_);
        fresh_.clear();
    }

    [[nodiscard]] bool armed(unsigned timer) const { return places_[timer] != place::nowhere; }
    [[nodiscard]] tick deadline(unsigned timer) const { return deadlines_[timer]; }
    [[nodiscard]] std::size_t size() const { return ordered_.size() + fresh_.size(); }
    [[nodiscard]] tick now() const { return now_; }
    [[nodiscard]] bool running() const { return running_; }

    [[nodiscard]] std::optional<unsigned> next() const {
        if (ordered_.empty()) return std::nullopt;
        return ordered_.begin()->second;
    }

    [[nodiscard]] std::optional<tick> next_expiry() const {
        tick next = fresh_.empty() ? never_tick : now_;
        if (!ordered_.empty()) next = std::min(next, ordered_.begin()->first);
        return next == never_tick ? std::nullopt : std::optional(next);
    }

    // The deadline of one that is armed, or now.
    [[nodiscard]] tick some_deadline(unsigned number) const {
        if (ordered_.empty()) return now_;
        const auto steps = static_cast<std::ptrdiff_t>(number % ordered_.size());
        return std::next(ordered_.begin(), steps)->first;
    }

    // Whether no timer has been cancelled since none was to come.
    [[nodiscard]] bool bounds_exact() {
        if (!next_expiry()) bounds_exact_ = true;
        return bounds_exact_;
    }

private:
    enum class place : std::uint8_t { nowhere, ordered, fresh };
    using order = std::multimap<tick, unsigned>;  // equal keys stay in the order of insertion

    // By definition, bit by bit, and not by the trick of roundest_tick().
    static tick roundest(tick earliest, tick latest) {
        if (earliest == 0 || latest <= earliest) return earliest;
        int bit = 63;
        while (latest >> bit << bit < earliest)
            --bit;
        return latest >> bit << bit;
    }

    void insert(unsigned timer, tick deadline) {
        ordered_.emplace(deadline, timer);
        deadlines_[timer] = deadline;
        places_[timer] = place::ordered;
    }

    order::iterator find(unsigned timer) {
        const auto [first, last] = ordered_.equal_range(deadlines_[timer]);
        return std::find_if(first, last, [&](const auto& e) { return e.second == timer; });
    }

    tick now_;
    tick firing_ = 0;
    bool running_ = false;
    bool bounds_exact_ = true;
    order ordered_;
    std::vector<unsigned> fresh_;  // armed for now during an advance
    std::vector<tick> deadlines_;
    std::vector<place> places_;
};

// ---- running a program on both ----

struct thrown_by_a_callback {};

template <class Queue>
class runner {
    struct timer : Queue::timer_type {
        explicit timer(unsigned number) : name(number) {}
        unsigned name;
    };

public:
    runner(tick start, unsigned count)
        : model_(start, count),
          queue_(std::make_unique<Queue>(start)),
          elsewhere_(std::make_unique<Queue>(start)),
          away_(count) {
        for (unsigned name = 0; name < count; ++name) {
            timers_.push_back(std::make_unique<timer>(name));
        }
    }

    void run(const std::vector<step>& program) {
        rest_ = program.begin();
        end_ = program.end();
        compare();
        while (rest_ != end_) {
            const step& s = *rest_++;
            run(s, nullptr);
            compare(s.until.bits % 4 == 0);
            // After the end of time little can happen: begin anew, not always at once.
            if (model_.now() == never_tick - 1 && rest_ != end_ && rest_->at.bits % 8 == 0) {
                rebuild(rest_->at.bits >> 8);
            }
        }
    }

private:
    // `firing` is the timer whose callback this step is run in, if it is.
    void run(const step& s, const timer* firing) {
        const unsigned count = static_cast<unsigned>(timers_.size());
        unsigned name = s.timer % count;
        if (s.self) name = firing != nullptr ? firing->name : model_.next().value_or(name);
        timer& t = *timers_[name];
        switch (s.what) {
            case action::arm_at: {
                const tick deadline = resolve(s.at);
                queue_->arm_at(t, deadline);
                back(name);
                model_.arm(name, deadline);
                break;
            }
            case action::arm_after: {
                const tick delay = std::max(resolve(s.at), model_.now()) - model_.now();
                queue_->arm_after(t, delay);
                back(name);
                model_.arm(name, tick_after(model_.now(), delay));
                break;
            }
            case action::arm_in_range: {
                const tick earliest = resolve(s.at);
                const tick latest = resolve(s.until);
                queue_->arm_in_range(t, earliest, latest);
                back(name);
                model_.arm_in_range(name, earliest, latest);
                break;
            }
            case action::arm_elsewhere:
                elsewhere_->arm_at(t, resolve(s.at));
                model_.remove(name);
                away_[name] = true;
                break;
            case action::arm_next:
                if constexpr (requires { queue_->arm_next(t, 0); }) {
                    if (firing == nullptr || firing->name != name) break;
                    const tick deadline = resolve(s.at);
                    queue_->arm_next(t, deadline);
                    back(name);
                    model_.arm_next(name, deadline);
                }
                break;
            case action::cancel:
                RC_ASSERT(queue_->cancel(t) == model_.remove(name));
                break;
            case action::destroy:
                timers_[name].reset();
                back(name);
                model_.remove(name);
                timers_[name] = std::make_unique<timer>(name);
                break;
            case action::take_any: {
                const auto* const taken = static_cast<timer*>(queue_->take_any());
                RC_ASSERT((taken != nullptr) == (model_.size() > 0));
                if (taken != nullptr) RC_ASSERT(model_.remove(taken->name));
                break;
            }
            case action::clear:
                queue_->clear();
                model_.clear();
                break;
            case action::rebuild:
                rebuild(s.at.bits);
                break;
            case action::fail:
                if (firing != nullptr) throw thrown_by_a_callback();
                break;
            case action::advance:
                advance(s);
                break;
        }
    }

    void rebuild(tick start) {
        queue_ = std::make_unique<Queue>(start);
        model_ = model(start, timers_.size());
        ++generation_;
    }

    void advance(const step& s) {
        const tick now = resolve(s.at);
        if (model_.running()) {
            RC_ASSERT(queue_->advance(now + 1, [](auto&) { RC_FAIL("fired in a callback"); }) ==
                      0U);
            return;
        }
        model_.begin_advance(now);
        const unsigned generation = generation_;
        std::size_t fired = 0;
        std::size_t reactions = s.reactions;
        bool thrown = false;
        const auto fire = [&](typename Queue::timer_type& base) {
            const auto& t = static_cast<timer&>(base);
            const std::optional<unsigned> expected = model_.fire();
            RC_ASSERT(expected.has_value());
            RC_ASSERT(t.name == *expected);
            ++fired;
            compare();
            if (reactions == 0 || rest_ == end_) return;
            --reactions;
            const step& reaction = *rest_++;
            run(reaction, &t);
            compare(reaction.until.bits % 4 == 0);
        };
        try {
            RC_ASSERT(queue_->advance(now, fire, s.budget) == fired);
        } catch (const thrown_by_a_callback&) {
            thrown = true;
        }
        RC_ASSERT(fired <= s.budget);
        if (generation != generation_) return;
        if (fired < s.budget && !thrown) {
            RC_ASSERT(!model_.fire().has_value());
            model_.end_advance();
            // So that a driver that sleeps until the bound does sleep.
            const bool again = model_.next_expiry() && *model_.next_expiry() <= model_.now();
            if (!again && queue_->next_bound()) RC_ASSERT(*queue_->next_bound() > model_.now());
        } else {
            model_.end_advance();
        }
    }

    // next_expiry() remembers what it finds: asked after every step, it would hide the states in
    // which nothing is known.
    void compare(bool with_expiry = false) {
        RC_ASSERT(queue_->check() == nullptr);
        RC_ASSERT(queue_->now() == model_.now());
        RC_ASSERT(queue_->size() == model_.size());
        RC_ASSERT(queue_->empty() == (model_.size() == 0));
        // Nothing is ever due at never_tick: so it stands for none, and failures print numbers.
        const tick next = model_.next_expiry().value_or(never_tick);
        const tick bound = queue_->next_bound().value_or(never_tick);
        RC_ASSERT(bound <= next);
        RC_ASSERT((bound == never_tick) == (next == never_tick));
        if (Queue::bounds_exact && model_.bounds_exact()) RC_ASSERT(bound == next);
        if (with_expiry) {
            RC_ASSERT(queue_->next_expiry().value_or(never_tick) == next);
            RC_ASSERT(queue_->next_bound().value_or(never_tick) == next);
            RC_ASSERT(queue_->check() == nullptr);
        }

        std::set<unsigned> visited;
        queue_->for_each([&](const typename Queue::timer_type& t) {
            RC_ASSERT(visited.insert(static_cast<const timer&>(t).name).second);
        });
        for (unsigned name = 0; name < timers_.size(); ++name) {
            const timer& t = *timers_[name];
            RC_ASSERT(visited.contains(name) == model_.armed(name));
            RC_ASSERT(t.armed() == (model_.armed(name) || away_[name]));
            if (model_.armed(name)) RC_ASSERT(t.deadline() == model_.deadline(name));
        }

        RC_ASSERT(elsewhere_->check() == nullptr);
        const auto away = std::count(away_.begin(), away_.end(), true);
        RC_ASSERT(elsewhere_->size() == static_cast<std::size_t>(away));
    }

    // The timer is not elsewhere any more.
    void back(unsigned name) { away_[name] = false; }

    [[nodiscard]] tick resolve(const moment& m) const {
        const tick now = model_.now();
        const tick span = slot_span(m.level);
        const auto shifted = [&](tick base) {
            if (m.around < 0) return base == 0 ? base : base - 1;
            return tick_after(base, static_cast<tick>(m.around));
        };
        switch (m.how) {
            case choice::near:
                return shifted(tick_after(now, m.factor / 4));
            case choice::distance:
                return shifted(tick_after(now, (1 + m.factor / 4) * span));
            case choice::seam:
                return shifted(tick_after(now / span * span, (1 + m.factor) * span));
            case choice::crowd: {
                const unsigned level = 1 + m.level % 4;
                const tick slot = slot_span(level);
                const tick inside =
                    m.bits % 2 == 0 ? m.factor % 8 : m.factor / 2 * slot_span(level - 1);
                return tick_after(now / slot * slot, slot + inside);
            }
            case choice::same:
                return shifted(model_.some_deadline(m.timer));
            case choice::equal:
                return model_.some_deadline(m.timer);
            case choice::next: {
                const tick next = model_.next_expiry().value_or(now);
                const bool far = next > now && next - now > tick{1} << 30;
                return shifted(far ? now : next);
            }
            case choice::past:
                return now - std::min(now, m.factor * span);
            case choice::last:
                return never_tick - 1 - m.factor / 8;
            case choice::never:
                return never_tick;
            case choice::any:
                return tick_after(now, m.bits);
        }
        return now;
    }

    model model_;
    std::unique_ptr<Queue> queue_;
    std::unique_ptr<Queue> elsewhere_;
    std::vector<bool> away_;  // armed elsewhere
    std::vector<std::unique_ptr<timer>> timers_;
    std::vector<step>::const_iterator rest_;
    std::vector<step>::const_iterator end_;
    unsigned generation_ = 0;
};

struct wheel : timing_wheel<> {
    using timing_wheel::timing_wheel;
    static constexpr bool bounds_exact = true;
};

// One in which three timers make a slot long: it pre-cascades, one timer per advance.
struct crowded_wheel : timing_wheel<> {
    explicit crowded_wheel(tick start) : timing_wheel(start) {
        detail::queue::wheel_access::set_long_slot(*this, 2);
    }
    static constexpr bool bounds_exact = false;
};

struct heap : timer_heap<> {
    using timer_heap::timer_heap;
    static constexpr bool bounds_exact = true;
};

template <class Queue>
void follows_the_model() {
    // Some five seconds of a debug build, unless the user says how many programs it shall be.
    ::setenv("RC_PARAMS", "max_success=1000", 0);
    EXPECT_TRUE(rc::check([] {
        const auto count = *rc::gen::element(1U, 4U, 12U, 32U, 64U);
        const auto start = *rc::gen::map(words(), [](auto word) { return word >> (word % 64); });
        const auto program = *programs();
        runner<Queue>(start, count).run(program);
    }));
}

TEST(TimerQueueProperty, TimingWheelFollowsTheModel) {
    follows_the_model<wheel>();
}

TEST(TimerQueueProperty, CrowdedTimingWheelFollowsTheModel) {
    follows_the_model<crowded_wheel>();
}

TEST(TimerQueueProperty, TimerHeapFollowsTheModel) {
    follows_the_model<heap>();
}

}  // namespace
}  // namespace verge
